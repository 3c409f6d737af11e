"""The plugins of this process, and configs with their references to secrets resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from moldau.connect.api import Connector
from moldau.connect.plugins import Catalogue, PluginKind
from moldau.connect.providers.resolution import Resolver
from moldau.errors import ConfigError, MoldauError

_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")

Resolved = tuple[dict[str, str], set[str]]


@cache
def catalogue() -> Catalogue:
    """Return the installed plugins of this Python, which are looked up once."""
    return Catalogue.installed()


def connector_class(config: Mapping[str, str]) -> type[Connector]:
    """Return the class that `connector.class` names. Raise ConfigError if there is none."""
    name = config.get("connector.class", "").strip()
    if not name:
        raise ConfigError('the config has no "connector.class": name the connector')
    found = catalogue().find(PluginKind.CONNECTOR, name).cls
    assert issubclass(found, Connector)
    return found


def connector_version(config: Mapping[str, str]) -> str | None:
    """Return the version of the connector's class, or of the package that it comes with; None if it
    is not installed here."""
    try:
        return catalogue().find(PluginKind.CONNECTOR, config.get("connector.class", "")).version
    except MoldauError:
        return None


def resolved(config: Mapping[str, str], worker: Mapping[str, str]) -> Resolved:
    """Return the config with its references resolved, and the resolved values: they are secrets.

    Raise ConfigError if a reference cannot be resolved. It names the settings and no value.
    """
    props, secrets, _ = resolved_for_a_time(config, worker)
    return props, secrets


def resolved_for_a_time(
    config: Mapping[str, str], worker: Mapping[str, str]
) -> tuple[dict[str, str], set[str], int | None]:
    """Do the same as `resolved`, and return also the milliseconds after which a value may be
    outdated; None for never."""
    if not any("${" in value for value in config.values()):
        return dict(config), set(), None
    resolver = Resolver.of(catalogue(), worker)
    try:
        props, ttl_ms = resolver.resolve(config)
        references = {
            found.group() for value in config.values() for found in _REFERENCE.finditer(value)
        }
        given = {text: resolver.resolve({"": text}).props[""] for text in references}
    finally:
        resolver.close()
    return props, {value for text, value in given.items() if value and value != text}, ttl_ms
