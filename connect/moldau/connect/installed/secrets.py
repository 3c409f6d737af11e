"""Finds the secret parts of a config, hides them, and puts them back. No IO.

Secrets are the values of PASSWORD settings, values under a name such as `sasl.jaas.config` or
`...password`, and the password inside an address: `jdbc:postgresql://user:PASSWORD@host/db`,
`?password=PASSWORD`. Of an address only the password is hidden, so the rest can still be read. A
reference such as `${env:DB_PASSWORD}` is no secret, because it contains no value.

Invariant: `unmasked(masked(config), config)` gives `config`. A hidden value without a known secret
is an error of its key; it is never stored as if it were the secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, unquote_plus

from moldau.config.hiding import has_secret_name, hidden, secret_places
from moldau.connect.api import Connector
from moldau.connect.config.kinds import HIDDEN, ConfigType
from moldau.connect.config.model import ConfigModel, Problem
from moldau.connect.installed.plugins import catalogue, connector_class
from moldau.connect.plugins import PluginKind, PluginNotFound
from moldau.connect.plugins.stages import aliases
from moldau.errors import MoldauError

_CONVERTERS: Final = (
    ("key.converter", PluginKind.CONVERTER),
    ("value.converter", PluginKind.CONVERTER),
    ("header.converter", PluginKind.HEADER_CONVERTER),
)


def secret_values(config: Mapping[str, str]) -> set[str]:
    """Return all secrets of a connector's config, as written and as its plugins decode them."""
    names = secret_names(config)
    found: set[str] = set()
    for name, value in config.items():
        if name in names:
            found |= set() if "${" in value else {value}
        for start, end in secret_places(value):
            part = value[start:end]
            found |= {part, unquote(part), unquote_plus(part)}
    return found


def secret_names(config: Mapping[str, str]) -> set[str]:
    """Return the keys of a config whose whole value is a secret."""
    names = {name for name in config if has_secret_name(name)}
    for prefix, model in _models(config):
        names |= {
            prefix + each.name for each in model.settings() if each.kind is ConfigType.PASSWORD
        }
    return names & set(config)


def _models(config: Mapping[str, str]) -> Iterator[tuple[str, type[ConfigModel]]]:
    """Yield prefix and model of every plugin that the config names, except unknown ones."""
    try:
        kind: type[Connector] = connector_class(config)
        yield "", kind.config_model
    except MoldauError:
        pass
    parts = [(name, f"{name}.", plugin) for name, plugin in _CONVERTERS]
    for stage, plugin in (
        ("transforms", PluginKind.TRANSFORMATION),
        ("predicates", PluginKind.PREDICATE),
    ):
        for alias in aliases(config, stage):
            prefix = f"{stage}.{alias}."
            parts.append((f"{prefix}type", prefix, plugin))
    for key, prefix, plugin in parts:
        name = config.get(key, "").strip()
        try:
            if name:  # else the worker's is used, with its own settings
                yield prefix, catalogue().find(plugin, name).cls.config_model
        except PluginNotFound:
            continue


def masked(config: Mapping[str, str], owner: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the config with hidden secrets. For a task's config `owner` is the connector's."""
    whole = owner if owner is not None else config
    values = {whole[name] for name in secret_names(whole) if "${" not in whole[name]}
    values |= {config[name] for name in secret_names(config) if "${" not in config[name]}
    return {
        name: HIDDEN if value in values and value else hidden(value)
        for name, value in config.items()
    }


def unmasked(
    config: Mapping[str, str | None], known: Mapping[str, str]
) -> tuple[dict[str, str | None], list[Problem]]:
    """Return a config with each hidden secret replaced by the one in the `known` config.

    The problems name the keys whose hidden secret is not known: those of a new connector, or an
    address in which more than the password was changed.
    """
    shown = masked(known)
    found: dict[str, str | None] = {}
    problems: list[Problem] = []
    names = secret_names({name: text for name, text in config.items() if text is not None})
    for name, value in config.items():
        found[name] = value
        if value is None or HIDDEN not in value:
            continue
        if shown.get(name) == value or (value == HIDDEN and name in names and name in known):
            found[name] = known[name]
        elif name in names or HIDDEN in {value[start:end] for start, end in secret_places(value)}:
            problems.append(
                Problem(
                    name,
                    f"{HIDDEN} stands in the place of a secret that is not known for this value -> "
                    "write the secret itself, or a reference such as ${env:DB_PASSWORD}",
                )
            )
    return found, problems
