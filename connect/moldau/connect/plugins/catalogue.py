"""The installed plugins, by every name that a config may use for them.

A name is a full Java class name, its last part (`JsonConverter`, `Cast$Value`), the last part
without the ending that all plugins of the kind have (`FileStreamSink`), or the Python name
`module.Class`. Only installed plugins can be named: a config chooses among plugins, it cannot load
other code.

An entry point with a matching name is loaded alone. Only if none matches are all of the group
imported to read their `java_names`. A plugin that cannot be imported is listed with its error and
affects no other.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import Enum

from moldau.connect.api.connector import Connector, SinkConnector, SourceConnector
from moldau.connect.api.conversion import Converter, HeaderConverter
from moldau.connect.api.plugin import Plugin
from moldau.connect.api.provider import ConfigProvider
from moldau.connect.api.transformation import Predicate, Transformation
from moldau.connect.plugins.java_classes import COUNTERPARTS, advice_on
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.plugins import Plugin as EntryPlugin
from moldau.plugins import PluginError, Plugins, installed_plugins


class PluginNotFound(ConfigError):
    """A config names a plugin that is not installed, or that cannot be loaded."""


class PluginKind(Enum):
    """A kind of plugin: entry-point group, base class, and the ending that a name may omit."""

    CONNECTOR = ("moldau.connectors", Connector, "Connector")
    CONVERTER = ("moldau.converters", Converter, "Converter")
    HEADER_CONVERTER = ("moldau.header_converters", HeaderConverter, "Converter")
    TRANSFORMATION = ("moldau.transforms", Transformation, "Transformation")
    PREDICATE = ("moldau.predicates", Predicate, "Predicate")
    CONFIG_PROVIDER = ("moldau.config_providers", ConfigProvider, "ConfigProvider")

    def __init__(self, group: str, base: type[Plugin], ending: str) -> None:
        self.group = group
        self.base = base
        self.ending = ending

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin that was loaded."""

    kind: PluginKind
    cls: type[Plugin]
    distribution: str
    distribution_version: str
    entry: str = ""

    @property
    def name(self) -> str:
        """The name that the REST API shows."""
        return self.cls.java_names[0] if self.cls.java_names else python_name(self.cls)

    @property
    def version(self) -> str:
        return self.cls.version() or self.distribution_version

    @property
    def type(self) -> str:
        """The type in `GET /connector-plugins`."""
        if issubclass(self.cls, SourceConnector):
            return "source"
        if issubclass(self.cls, SinkConnector):
            return "sink"
        return self.kind.name.lower()

    def names(self) -> set[str]:
        """Return every name by which a config can use the plugin."""
        full = {*self.cls.java_names, python_name(self.cls)}
        simple = {name.rsplit(".", 1)[-1] for name in full} | {self.entry}
        ending = self.kind.ending
        return (
            full | simple - {""} | {name.removesuffix(ending) for name in simple if name != ending}
        )

    def names_in_full(self) -> tuple[str, ...]:
        """Return the names to show: the Java names, or else that of the entry point."""
        return self.cls.java_names or (self.entry,)


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """An entry point that cannot be loaded as a plugin, and the error."""

    kind: PluginKind
    entry: str
    distribution: str
    error: str


def python_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class Catalogue:
    """The installed plugins by kind and name."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._complete: dict[PluginKind, dict[str, InstalledPlugin]] = {}
        self._single: dict[tuple[PluginKind, str], InstalledPlugin] = {}
        self.broken: list[BrokenPlugin] = []
        """The plugins that could not be loaded so far."""

    @classmethod
    def installed(cls) -> Catalogue:
        """Return the catalogue of this Python's installed plugins."""
        return cls(installed_plugins())

    def find(self, kind: PluginKind, name: str) -> InstalledPlugin:
        """Return the plugin of that name. Raise PluginNotFound with the nearest name."""
        wanted = name.strip()
        known = self._single.get((kind, wanted)) or self._by_entry(kind, wanted)
        if known is None:
            known = self._names(kind).get(wanted)
        if known is None:
            raise self._not_found(kind, wanted)
        self._single[kind, wanted] = known
        return known

    def all(self, kind: PluginKind) -> list[InstalledPlugin]:
        """Return every plugin of a kind, each once, ordered by name."""
        unique = {id(each.cls): each for each in self._names(kind).values()}
        return sorted(unique.values(), key=lambda each: each.name)

    def _by_entry(self, kind: PluginKind, wanted: str) -> InstalledPlugin | None:
        """Return the plugin whose entry point has that name, and load no other."""
        simple = wanted.rsplit(".", 1)[-1]
        entries = self._plugins.named(kind.group)
        short = simple.removesuffix(kind.ending) or simple
        for entry_name in dict.fromkeys((simple, short, simple + kind.ending)):
            entry = entries.get(entry_name)
            found = None if entry is None else self._loaded(kind, entry)
            if found is not None and wanted in found.names():
                return found
        return None

    def _names(self, kind: PluginKind) -> dict[str, InstalledPlugin]:
        complete = self._complete.get(kind)
        if complete is None:
            complete = self._complete[kind] = {}
            for entry in self._plugins.named(kind.group).values():
                found = self._loaded(kind, entry)
                for name in sorted(found.names()) if found else ():
                    complete.setdefault(name, found)  # type: ignore[arg-type]
        return complete

    def _loaded(self, kind: PluginKind, entry: EntryPlugin) -> InstalledPlugin | None:
        try:
            cls = entry.load()
        except PluginError as error:
            self._note(kind, entry, str(error.context.get("error", error)))
            return None
        if not (isinstance(cls, type) and issubclass(cls, kind.base)):
            self._note(kind, entry, f"{entry.target} is no {kind.base.__name__}")
            return None
        return InstalledPlugin(kind, cls, entry.distribution, entry.version, entry.name)

    def _note(self, kind: PluginKind, entry: EntryPlugin, error: str) -> None:
        broken = BrokenPlugin(kind, entry.name, entry.distribution, error)
        if broken not in self.broken:
            self.broken.append(broken)

    def _not_found(self, kind: PluginKind, wanted: str) -> PluginNotFound:
        names = self._names(kind)
        simple = wanted.rsplit(".", 1)[-1]
        for broken in self.broken:
            if broken.kind is kind and broken.entry in (simple, simple + kind.ending):
                return PluginNotFound(
                    f"the {kind.word} {wanted} is installed but cannot be loaded: {broken.error}"
                )
        advice = advice_on(wanted)
        hint = f" ({advice})." if advice else ""
        if not COUNTERPARTS.get(wanted):
            near = difflib.get_close_matches(*_alike(wanted, names), n=1)
            hint = f'; did you mean "{near[0]}"?' if near else hint
        installed = ", ".join(each.name for each in self.all(kind)) or "none"
        return PluginNotFound(
            f"Failed to find any class that implements {kind.base.__name__} and which name matches "
            f"{wanted}{hint} Installed: {installed}"
        )


def _alike(wanted: str, names: Iterable[str]) -> tuple[str, list[str]]:
    """Return the name and those that it may be a slip of the pen for: a name with a package, those
    of the same product; one without, all short names."""
    product = wanted.split(".")[:2]
    if len(product) < 2:
        return wanted, [each for each in names if "." not in each]
    return wanted, [each for each in names if each.split(".")[:2] == product]
