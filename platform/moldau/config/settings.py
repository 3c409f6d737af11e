"""The settings of a running component: typed values that never change, each with its source.

Only `SettingTable.resolve` creates `Settings`, so their values are checked. A dynamic change
creates new `Settings` (`overlaid`), and `differences` compares two of them: a half-applied change
is never visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar, cast

from moldau.config.given import GivenValue, Layer, Source, SourceKind
from moldau.config.setting import Absent, Setting
from moldau.config.table import Row, SettingTable
from moldau.deferred import dataclass

V = TypeVar("V")

_DEFAULT = Source(SourceKind.DEFAULT)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The value of one row, and the given values that it was chosen from."""

    value: Any
    given: tuple[GivenValue, ...]  # lowest precedence first; the last one is the value's


@dataclass(frozen=True, slots=True)
class Synonym:
    """One value that a setting would have without those before it in the list."""

    name: str
    text: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class SettingDescription:
    """A setting as DescribeConfigs returns it. `text` is None for null and for every secret."""

    setting: Row
    text: str | None
    source: Source
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source.kind is SourceKind.DEFAULT


class Settings:
    """Checked values by their rows: `settings[log_segment_bytes]` is an int."""

    __slots__ = ("_chosen", "_layers", "_others", "_values", "notices", "others", "table")

    def __init__(
        self,
        table: SettingTable,
        layers: tuple[Layer, ...],
        chosen: Mapping[str, Chosen],
        others: Mapping[str, Sequence[GivenValue]],
        notices: tuple[str, ...],
    ) -> None:
        self.table = table
        self._others = {name: tuple(given) for name, given in others.items()}
        # The settings under open prefixes; of several layers the last one counts.
        self.others = MappingProxyType({name: given[-1] for name, given in self._others.items()})
        self.notices = notices  # notes for the user, although nothing is wrong
        self._layers = layers
        self._chosen = dict(chosen)
        self._values: dict[Row, Any] = {}
        """The values that were read before: some are read for every request."""

    def __getitem__(self, setting: Setting[V]) -> V:
        try:
            value: V = self._values[setting]
        except KeyError:
            value = self._values[setting] = self._find(setting)
        return value

    def _find(self, setting: Setting[V]) -> V:
        assert setting in self.table, f"{setting} is not in this table"
        chosen = self._chosen.get(setting.name)
        if chosen is not None:
            return cast(V, chosen.value)
        fallback = setting.fallback
        if fallback is not None:
            inherits = isinstance(setting.default, Absent)
            if inherits or self.source(fallback.setting).kind is not SourceKind.DEFAULT:
                value = self[fallback.setting]
                return cast(V, None if value is None else fallback.convert(value))
        assert not isinstance(setting.default, Absent), f"{setting.name} was not given"
        return setting.default

    def source(self, setting: Setting[Any]) -> Source:
        """Return the place where the value of `setting` was given; a default has no place."""
        given = self._given(setting)
        return _DEFAULT if given is None else given.source

    def _given(self, setting: Setting[Any]) -> GivenValue | None:
        """Return what determined the value of `setting`: its own value, or that of a fallback."""
        row: Setting[Any] | None = setting
        while row is not None:
            if row.name in self._chosen:
                return self._chosen[row.name].given[-1]
            row = row.fallback.setting if row.fallback is not None else None
        return None

    def is_given(self, setting: Setting[Any]) -> bool:
        """Whether the user gave this very setting, and not one that it falls back to."""
        return setting.name in self._chosen

    def is_given_under(self, prefix: str, setting: Setting[Any]) -> bool:
        """Whether the user gave the setting under `prefix`; see `with_prefix`."""
        name = prefix + setting.name
        return any(each.name == name for layer in self._layers for each in layer)

    def given_for(self, name: str) -> tuple[GivenValue, ...]:
        """Return what was given for a name in `others`, one value a layer; the last one counts."""
        return self._others.get(name, ())

    def with_prefix(self, prefix: str) -> Settings:
        """Return these settings for one listener or plugin: values that were given under `prefix`
        win.

        `listener.name.internal.ssl.keystore.location` becomes `ssl.keystore.location`. Names that
        are not in the table stay in `others`, without the prefix.
        """
        given = [each for layer in self._layers for each in layer if each.name.startswith(prefix)]
        own = [replace(each, name=each.name[len(prefix) :]) for each in given]
        known = tuple(each for each in own if self.table.find(each.name) is not None)
        settings = self.table.resolve(*self._layers, known, is_whole=False) if known else self
        others = {
            name[len(prefix) :]: [replace(each, name=name[len(prefix) :]) for each in given]
            for name, given in self._others.items()
            if name.startswith(prefix) and self.table.find(name[len(prefix) :]) is None
        }
        return Settings(self.table, settings._layers, settings._chosen, others, settings.notices)

    def overlaid(self, *layers: Layer) -> Settings:
        """Return new settings in which `layers` override these. Raise BadSettings if the result is
        invalid.

        Dynamic settings are overlaid on the settings at process start, all of them each time, so
        that a deleted one is gone.
        """
        return self.table.resolve(*self._layers, *layers)

    def differences(self, other: Settings) -> tuple[Row, ...]:
        """Return the settings that have another value in `other`."""
        assert self.table is other.table
        return tuple(row for row in self.table if self[row] != other[row])

    def described(self) -> Iterator[SettingDescription]:
        """Return the descriptions of all settings, in the table's order, for DescribeConfigs."""
        return map(self.describe, self.table)

    def describe(self, setting: Setting[Any]) -> SettingDescription:
        given = self._given(setting)
        if given is None or given.reference is None:
            text = setting.write(self[setting])
        else:
            text = None if setting.secret else given.reference
        synonyms = tuple(self._synonyms(setting))
        return SettingDescription(setting, text, self.source(setting), synonyms)

    def _synonyms(self, setting: Setting[Any]) -> Iterator[Synonym]:
        row = setting
        while True:
            chosen = self._chosen.get(row.name)
            for given in reversed(chosen.given if chosen is not None else ()):
                yield Synonym(given.name, _text(row, given), given.source)
            if row.default is not None and not isinstance(row.default, Absent):
                yield Synonym(row.name, row.write(row.default), _DEFAULT)
            if row.fallback is None:
                return
            row = row.fallback.setting

    def __repr__(self) -> str:
        given = ", ".join(sorted(self._chosen))
        return f"Settings(given: {given or 'none'})"


def _text(row: Row, given: GivenValue) -> str | None:
    value = None if row.secret else given.showable
    return ",".join(value) if isinstance(value, tuple) else value
