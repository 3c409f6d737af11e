"""moldau's five distributions, and which of them are here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_LAYERS = {
    "platform": "runtime, protocol, records, settings, client, command line",
    "broker": "broker and controller",
    "streams": "the Streams DSL and its engines",
    "connect": "the Connect worker",
    "connectors": "file, JDBC and Spark connectors",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One distribution; `version` is None where it is not installed."""

    name: str
    distribution: str
    contents: str
    version: str | None


def _installed_version(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def installed_layers(
    version_of: Callable[[str], str | None] = _installed_version,
) -> tuple[Layer, ...]:
    """All five, from the ground up."""
    return tuple(
        Layer(name, f"moldau-{name}", contents, version_of(f"moldau-{name}"))
        for name, contents in _LAYERS.items()
    )


def platform_version(version_of: Callable[[str], str | None] = _installed_version) -> str:
    """The version that `moldau --version` prints."""
    return version_of("moldau-platform") or "unknown (not installed, run from its sources)"
