"""The installed layers: moldau's five distributions, and the layers of other distributions.

A distribution is a layer if it has an entry point in the group `moldau.layers`; see `contracts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moldau.deferred import dataclass
from moldau.plugins.registry import Plugin
from moldau.runtime.packages import version_of

_LAYERS = {
    "platform": "runtime, protocol, records, settings, client, command line",
    "broker": "broker and controller",
    "streams": "the Streams DSL and its engines",
    "connect": "the Connect worker",
    "connectors": "file, JDBC and Spark connectors",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; `version` is None if its distribution is not installed."""

    name: str
    distribution: str
    contents: str
    version: str | None


def installed_layers(
    version_of: Callable[[str], str | None] = version_of, added: Iterable[Plugin] = ()
) -> tuple[Layer, ...]:
    """Return moldau's own five layers, lowest first, then those of the entry points `added`."""
    ours = tuple(
        Layer(name, f"moldau-{name}", contents, version_of(f"moldau-{name}"))
        for name, contents in _LAYERS.items()
    )
    others = tuple(
        Layer(each.name, each.distribution, f"brought by {each.distribution}", each.version)
        for each in added
        if each.name not in _LAYERS
    )
    return (*ours, *others)


def platform_version(version_of: Callable[[str], str | None] = version_of) -> str:
    """Return the version that `moldau --version` prints."""
    return version_of("moldau-platform") or "unknown (not installed, run from its sources)"
