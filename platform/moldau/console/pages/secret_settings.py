"""Which settings of a connector are secrets, by the types that its worker tells.

A worker of Apache Kafka answers with the values of all settings, and not every secret has a name
that tells of it. The definitions of the plugins that a config names do: of the connector, of its
transforms and of its converters.

Invariant: of a worker that cannot say, only settings that are no secrets of any connector are
shown. One that does not know the question (before Kafka 3.2) or the plugin leaves the names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from moldau.console.apis.connect import ConnectApi, ConnectRefused
from moldau.deferred import deferred_pattern

QUEUE: Final = "errors.deadletterqueue.topic.name"
GROUP: Final = "consumer.override.group.id"
_CLASS: Final = "connector.class"
_PLAIN: Final = frozenset((_CLASS, "name", "tasks.max", "topics", "topics.regex", QUEUE, GROUP))
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_UNKNOWN: Final = (404, 405)
_WHERE: Final = deferred_pattern(
    r"ur[il]|host|server|broker|address|endpoint|domain|proxy|account|cloud|contact|truststore"
    r"|node|peer|seed|gateway|dsn|class|driver|(?:^|[._-])(?:port|type|converter)$",
    re.I,
)
"""Names of settings that say to which server or class others go. Too many do no harm."""
_ADDRESS: Final = deferred_pattern(
    r"://|[a-z][\w.-]*:\d{2,5}\b|(?:\d{1,3}\.){3}\d|\[[\da-f:]+]", re.I
)


class SecretSettings:
    """The settings of type PASSWORD of the plugins of one worker, each asked for once."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}

    async def of(self, api: ConnectApi, config: Mapping[str, str]) -> Collection[str]:
        """Return the names of the settings that are secrets. Raise ConnectRefused if the worker
        does not answer."""
        found: set[str] = set()
        for prefix, plugin in plugins_of(config):
            try:
                found |= {prefix + each for each in await self._passwords(api, plugin)}
            except ConnectRefused as error:
                if not error.status:
                    raise
                if error.status not in _UNKNOWN:
                    return config.keys() - _PLAIN
        return found

    async def _passwords(self, api: ConnectApi, plugin: str) -> frozenset[str]:
        if plugin not in self._known:
            path = f"/connector-plugins/{quote(plugin, safe='')}/config"
            told = await api.ask("GET", path)
            names = (str(each["name"]) for each in told if each.get("type") == "PASSWORD")
            self._known[plugin] = frozenset(names)
        return self._known[plugin]


def says_where(name: str, before: str, after: str) -> bool:
    """Whether a change of a setting is one of the server or class that gets the others."""
    if before == after or (not before and name.endswith(".type")):  # a new part has no secrets yet
        return False
    return any(_WHERE.search(name) or _ADDRESS.search(value) for value in (before, after))


def plugins_of(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the classes that a config names, each with the prefix of its settings."""
    for name, value in config.items():
        part, _, last = name.rpartition(".")
        if name == _CLASS:
            yield "", value
        elif name in _CONVERTERS:
            yield f"{name}.", value
        elif last == "type" and part.startswith(("transforms.", "predicates.")):
            yield f"{part}.", value
