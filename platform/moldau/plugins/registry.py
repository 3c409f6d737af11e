"""Plugins by group and name, found through entry points and loaded on demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Final, Protocol

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.runtime.packages import Package, import_path, installed_packages, normalized

_PREFIX: Final = "moldau."


class PluginError(MoldauError):
    """A plugin that is missing, ambiguous or cannot be loaded."""


class Distribution(Protocol):
    """The installed package that an entry point belongs to."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...


class EntryPoint(Protocol):
    """An entry point of an installed package; tests make their own."""

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
        """Return the object that the entry point names. Raise PluginError if that fails."""
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
        """Return the facts for an error about the plugin, including its package."""
        return {
            "plugin": self.name,
            "group": self.group,
            "target": self.target,
            "distribution": f"{self.distribution} {self.version}",
        }


@dataclass(frozen=True, slots=True)
class Conflict:
    """A name that several distributions claim; none of them can be loaded by it."""

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
    """A plugin that could not be loaded, and the reason."""

    plugin: Plugin
    error: PluginError


class Plugins:
    """All installed plugins, by group and name."""

    def __init__(
        self, entry_points: Iterable[EntryPoint], unreadable: Iterable[PluginError] = ()
    ) -> None:
        """Ignore entry points of groups that are not moldau's. `unreadable` has an error for each
        package whose entry points cannot be read."""
        self.unreadable = tuple(unreadable)
        claims: dict[tuple[str, str], list[Plugin]] = {}
        for plugin in map(_plugin, filter(_is_ours, entry_points)):
            known = claims.setdefault((plugin.group, plugin.name), [])
            if plugin not in known:  # the same package can be on the path twice
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
        """Return the groups that have a plugin, sorted."""
        return tuple(sorted(self._groups))

    def named(self, group: str) -> dict[str, Plugin]:
        """Return the plugins of a group, ordered by name, without those in conflict."""
        return dict(self._groups.get(group, {}))

    def load(self, group: str, name: str) -> object:
        """Return the loaded plugin. Raise PluginError if there is none, or two, or on failure."""
        plugin = self._groups.get(group, {}).get(name)
        if plugin is not None:
            return plugin.load()
        for conflict in self.conflicts:
            if (conflict.group, conflict.name) == (group, name):
                raise PluginError("two plugins have one name", conflict=str(conflict))
        known = ", ".join(self._groups.get(group, ())) or "none"
        raise PluginError("no such plugin is installed", plugin=name, group=group, installed=known)

    def load_all(self, group: str) -> tuple[dict[str, object], tuple[Failure, ...]]:
        """Return every plugin of a group that can be loaded, and the failures of the others."""
        loaded: dict[str, object] = {}
        failures = []
        for name, plugin in self.named(group).items():
            try:
                loaded[name] = plugin.load()
            except PluginError as error:
                failures.append(Failure(plugin, error))
        return loaded, tuple(failures)


def installed_plugins() -> Plugins:
    """Return the plugins of this Python. Packages are looked at once for each `sys.path`: what is
    installed into its folders later counts in the next process."""
    return _plugins_on(import_path())


@lru_cache(maxsize=1)
def _plugins_on(path: tuple[str, ...]) -> Plugins:
    found: dict[str, Sequence[EntryPoint]] = {}
    unreadable = []
    for package in installed_packages(path):
        try:
            ours = package.entry_points(_PREFIX)
        except Exception as error:
            unreadable.append(_unreadable(package, error))
            continue
        # If a package is on the path twice, the first is the one that an import finds.
        if ours:
            found.setdefault(normalized(ours[0].dist.name), ours)
    return Plugins(
        (entry_point for entry_points in found.values() for entry_point in entry_points),
        unreadable,
    )


def _unreadable(package: Package, error: Exception) -> PluginError:
    """Return an error that names the package by its folder: its name may be unreadable."""
    return PluginError(
        "the metadata of a package cannot be read",
        package=package.folder,
        error=f"{type(error).__name__}: {error}",
    )


def _is_ours(entry_point: EntryPoint) -> bool:
    return entry_point.group.startswith(_PREFIX)


def _plugin(entry_point: EntryPoint) -> Plugin:
    distribution = entry_point.dist
    return Plugin(
        entry_point.group,
        entry_point.name,
        entry_point.value,
        "unknown" if distribution is None else distribution.name,
        "unknown" if distribution is None else distribution.version,
    )
