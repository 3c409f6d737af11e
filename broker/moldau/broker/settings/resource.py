"""The settings of one topic or group: its own, and the broker's as defaults.

Nothing is copied: a broker's setting that changes at run time changes every resource that does not
set it, as soon as the resource uses the broker's new settings (`with_broker`). A resource has few
settings, and most are unset, so thousands of topics cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from moldau.config import GivenValue, Layer, Setting, Settings, Source, SourceKind
from moldau.config.kinds import trim
from moldau.config.table import Row

V = TypeVar("V")


class Default:
    """The broker's setting that applies if a resource has none of its own."""

    __slots__ = ("convert", "setting")

    def __init__(self, setting: Row, convert: Callable[[Any], Any] | None = None) -> None:
        self.setting = setting
        self.convert = convert

    def value(self, broker: Settings) -> Any:
        value = broker[self.setting]
        return value if self.convert is None else self.convert(value)


class ResourceSettings:
    """Checked values by their rows, like `Settings`. An instance never changes."""

    __slots__ = ("_defaults", "broker", "own")

    def __init__(self, own: Settings, broker: Settings, defaults: Mapping[Row, Default]) -> None:
        self.own = own
        self.broker = broker
        self._defaults = defaults

    def __getitem__(self, setting: Setting[V]) -> V:
        default = self._defaults.get(setting)
        if default is None or self.own.is_given(setting):
            return self.own[setting]
        return cast(V, default.value(self.broker))

    def is_given(self, setting: Row) -> bool:
        """Whether the resource sets this itself."""
        return self.own.is_given(setting)

    def default(self, setting: Row) -> Default | None:
        """Return the broker's default for `setting`, or None."""
        return self._defaults.get(setting)

    def with_broker(self, broker: Settings) -> ResourceSettings:
        """Return the same settings of the resource over other settings of the broker."""
        return ResourceSettings(self.own, broker, self._defaults)

    def __repr__(self) -> str:
        return f"ResourceSettings({self.own!r})"


def resource_layer(values: Mapping[str, str], kind: SourceKind, name: str) -> Layer:
    """Return the settings of one resource in the metadata log as a layer."""
    source = Source(kind, name)
    return tuple(GivenValue(key, value, source) for key, value in values.items())


def is_usable(row: Row | None, given: GivenValue) -> bool:
    """Whether the given value is a valid value of this row."""
    if row is None or not isinstance(given.value, str):
        return False
    try:
        value = row.kind.read(trim(given.value))
    except ValueError:
        return False
    return row.check is None or bool(row.check.holds(value))
