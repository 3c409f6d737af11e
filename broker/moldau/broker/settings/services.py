"""Which services run inside a broker's process, and the settings of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.broker.settings import console, node, registry
from moldau.broker.settings.security import moldau_audit_log
from moldau.config import Settings
from moldau.errors import ConfigError

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
        console.moldau_console_oidc_issuer,
        console.moldau_console_oidc_client_id,
        console.moldau_console_oidc_client_secret_file,
        console.moldau_console_oidc_roles_claim,
        console.moldau_console_oidc_user_claim,
        console.moldau_console_oidc_redirect_uri,
        console.moldau_console_roles,
        console.moldau_console_audit,
        console.moldau_console_registry,
        console.moldau_console_data_contract_rules,
        console.moldau_console_connect,
        console.moldau_console_streams,
        console.moldau_console_pipeline,
        console.moldau_console_prometheus,
    ),
}
"""The settings of each service, its listener first."""


def wanted_services(settings: Settings) -> dict[str, dict[str, str]]:
    """Return the settings of each service that is asked for, by the names after its own. Raise
    ConfigError if two of them cannot be in force together."""
    _check_audit_files(settings)
    found: dict[str, dict[str, str]] = {}
    for name, (listener, *others) in _ROWS.items():
        if settings[listener]:
            prefix = f"moldau.{name}."
            found[name] = {
                row.name.removeprefix(prefix): row.kind.write(value)
                for row in (listener, *others)
                if (value := settings[row]) is not None
            }
    if "console" in found and "registry" not in found["console"]:
        found["console"] |= _registry_beside(settings)
    return found


def _registry_beside(settings: Settings) -> dict[str, str]:
    """Return the console's setting for a registry of the same process that asks for no login."""
    at = settings[registry.moldau_registry_listener]
    if not at or at.endswith(":0") or settings[registry.moldau_registry_http_config]:
        return {}
    return {"registry": f"http://{settings[registry.moldau_registry_advertised] or at}"}


def _check_audit_files(settings: Settings) -> None:
    """Raise ConfigError for one file of two logs: each would write over the other's lines."""
    path, row = settings[moldau_audit_log], console.moldau_console_audit
    if path and path == settings[row]:
        raise ConfigError(
            f"{moldau_audit_log.name} writes that file: give the console another one",
            setting=row.name,
            value=path,
            source=settings.source(row),
        )


def service_notices(settings: Settings) -> Iterator[str]:
    """Yield a notice for each setting of a service that has no effect."""
    for listener, *others in _ROWS.values():
        if settings[listener] and "broker" not in settings[node.process_roles]:
            where = settings.source(listener)
            yield f"{listener.name} has no effect: this node is no broker ({where})"
        for row in others:
            if settings.is_given(row) and not settings[listener]:
                yield f"{row.name} has no effect without {listener.name} ({settings.source(row)})"
