"""Plugins by group and name, found through entry points and loaded on demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from moldau.errors import MoldauError


class PluginError(MoldauError):
    """A plugin that is missing, ambiguous or cannot be loaded."""


class Distribution(Protocol):
    """The installed package that an entry point belongs to."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...


class Located(Protocol):
    """What tells where a package is, if nothing else of it can be read."""

    def locate_file(self, path: str, /) -> object: ...


class EntryPoint(Protocol):
    """What `importlib.metadata` gives; tests make their own."""

    @property
    def name(self) -> str: ...

    @property
    def group(self) -> str: ...

    @property
    def value(self) -> str: ...

    @property
    def dist(self) -> Distribution | None: ...


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point: `target` is `module:attribute`, imported by `load`."""

    group: str
    name: str
    target: str
    distribution: str
    version: str

    def load(self) -> object:
        """The object that the entry point names; PluginError if that fails for any reason."""
        module_name, _, attributes = self.target.partition(":")
        try:
            loaded: object = import_module(module_name.strip())
            for attribute in filter(None, attributes.split("[")[0].strip().split(".")):
                loaded = getattr(loaded, attribute)
        except (Exception, SystemExit) as error:
            raise PluginError(
                "a plugin cannot be loaded",
                **self.facts(),
                error=f"{type(error).__name__}: {error}",
            ) from error
        return loaded

    def facts(self) -> dict[str, str]:
        """What an error says of the plugin, so that its reader knows the package to look at."""
        return {
            "plugin": self.name,
            "group": self.group,
            "target": self.target,
            "distribution": f"{self.distribution} {self.version}",
        }


@dataclass(frozen=True, slots=True)
class Conflict:
    """A name that several distributions claim; it can be used from none of them."""

    group: str
    name: str
    claims: tuple[Plugin, ...]

    def __str__(self) -> str:
        claims = ", ".join(
            f"{claim.distribution} {claim.version} ({claim.target})" for claim in self.claims
        )
        return f"{self.name} in {self.group} is claimed by {claims}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A plugin that could not be loaded, and why."""

    plugin: Plugin
    error: PluginError


class Plugins:
    """All plugins that are installed, by group and name."""

    def __init__(
        self, entry_points: Iterable[EntryPoint], unreadable: Iterable[PluginError] = ()
    ) -> None:
        """Entry points of other people's groups are passed over. `unreadable` tells of packages
        with entry points that cannot be read."""
        self.unreadable = tuple(unreadable)
        claims: dict[tuple[str, str], list[Plugin]] = {}
        for plugin in map(_plugin, filter(_is_ours, entry_points)):
            known = claims.setdefault((plugin.group, plugin.name), [])
            if plugin not in known:  # the same package can stand twice on the path
                known.append(plugin)
        self._groups: dict[str, dict[str, Plugin]] = {}
        conflicts = []
        for (group, name), plugins in sorted(claims.items()):
            if len(plugins) == 1:
                self._groups.setdefault(group, {})[name] = plugins[0]
            else:
                conflicts.append(Conflict(group, name, tuple(plugins)))
        self.conflicts: tuple[Conflict, ...] = tuple(conflicts)

    def groups(self) -> tuple[str, ...]:
        """Those that have a plugin, sorted."""
        return tuple(sorted(self._groups))

    def named(self, group: str) -> dict[str, Plugin]:
        """The plugins of a group, ordered by name, without those in conflict."""
        return dict(self._groups.get(group, {}))

    def load(self, group: str, name: str) -> object:
        """The plugin of that name; PluginError if there is none, or two, or it is broken."""
        plugin = self._groups.get(group, {}).get(name)
        if plugin is not None:
            return plugin.load()
        for conflict in self.conflicts:
            if (conflict.group, conflict.name) == (group, name):
                raise PluginError("two plugins have one name", conflict=str(conflict))
        known = ", ".join(self._groups.get(group, ())) or "none"
        raise PluginError("no such plugin is installed", plugin=name, group=group, installed=known)

    def load_all(self, group: str) -> tuple[dict[str, object], tuple[Failure, ...]]:
        """Every plugin of a group that can be loaded, and what is wrong with the others."""
        loaded: dict[str, object] = {}
        failures = []
        for name, plugin in self.named(group).items():
            try:
                loaded[name] = plugin.load()
            except PluginError as error:
                failures.append(Failure(plugin, error))
        return loaded, tuple(failures)


def installed_plugins() -> Plugins:
    """What this Python has installed. Looks at the metadata of every package: call it once."""
    from importlib.metadata import distributions

    found: dict[str, Sequence[EntryPoint]] = {}
    unreadable = []
    for distribution in distributions():
        try:
            ours = [each for each in distribution.entry_points if _is_ours(each)]
            # Where a package stands twice on the path, the first is what an import would find.
            if ours:
                found.setdefault(_name_of(distribution), ours)
        except Exception as error:
            unreadable.append(_unreadable(distribution, error))
    return Plugins(
        (entry_point for entry_points in found.values() for entry_point in entry_points),
        unreadable,
    )


def _name_of(distribution: Distribution) -> str:
    name, version = distribution.name, distribution.version
    if not name or not version:
        raise ValueError("the metadata say no name or no version")
    return name.lower().replace("_", "-")


def _unreadable(distribution: Located, error: Exception) -> PluginError:
    """Named by its folder: the name may be what cannot be read."""
    return PluginError(
        "the metadata of a package cannot be read",
        package=str(getattr(distribution, "_path", distribution.locate_file(""))),
        error=f"{type(error).__name__}: {error}",
    )


def _is_ours(entry_point: EntryPoint) -> bool:
    return entry_point.group.startswith("moldau.")


def _plugin(entry_point: EntryPoint) -> Plugin:
    distribution = entry_point.dist
    return Plugin(
        entry_point.group,
        entry_point.name,
        entry_point.value,
        "unknown" if distribution is None else distribution.name,
        "unknown" if distribution is None else distribution.version,
    )
