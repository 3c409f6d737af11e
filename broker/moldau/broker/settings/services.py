"""Which services run inside a broker's process, and the settings of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.broker.settings import console, node, registry
from moldau.config import Settings

_ROWS: Final = {
    "registry": (
        registry.moldau_registry_listener,
        registry.moldau_registry_advertised,
        registry.moldau_registry_http_config,
        registry.moldau_registry_client_config,
    ),
    "console": (
        console.moldau_console_listener,
        console.moldau_console_admin,
        console.moldau_console_http_config,
    ),
}
"""The settings of each service, its listener first."""


def wanted_services(settings: Settings) -> dict[str, dict[str, str]]:
    """Return the settings of each service that is asked for, by the names after its own."""
    found: dict[str, dict[str, str]] = {}
    for name, (listener, *others) in _ROWS.items():
        if settings[listener]:
            given = {row.name: row.write(settings[row]) for row in (listener, *others)}
            prefix = f"moldau.{name}."
            found[name] = {
                each.removeprefix(prefix): text for each, text in given.items() if text is not None
            }
    return found


def service_notices(settings: Settings) -> Iterator[str]:
    """Yield a notice for each setting of a service that has no effect."""
    for listener, *others in _ROWS.values():
        if settings[listener] and "broker" not in settings[node.process_roles]:
            where = settings.source(listener)
            yield f"{listener.name} has no effect: this node is no broker ({where})"
        for row in others:
            if settings.is_given(row) and not settings[listener]:
                yield f"{row.name} has no effect without {listener.name} ({settings.source(row)})"
