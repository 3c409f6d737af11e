"""The settings of one topic or group: its own, and under them the broker's.

Nothing is copied: a broker's setting that changes at run time changes every resource that does not
set it, as soon as its settings stand on the new ones (`with_broker`). What a resource may set is
small and mostly unset, so thousands of topics cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from moldau.config import Given, Layer, Setting, Settings, Source, SourceKind
from moldau.config.kinds import trim
from moldau.config.table import Row

V = TypeVar("V")


class Default:
    """The broker's setting that holds where a resource has none of its own."""

    __slots__ = ("convert", "setting")

    def __init__(self, setting: Row, convert: Callable[[Any], Any] | None = None) -> None:
        self.setting = setting
        self.convert = convert

    def value(self, broker: Settings) -> Any:
        value = broker[self.setting]
        return value if self.convert is None else self.convert(value)


class ResourceSettings:
    """Checked values by their rows, as `Settings` has them. Never changes."""

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
        """The broker's setting behind `setting`, if there is one."""
        return self._defaults.get(setting)

    def with_broker(self, broker: Settings) -> ResourceSettings:
        """The same settings of the resource over other ones of the broker."""
        return ResourceSettings(self.own, broker, self._defaults)

    def __repr__(self) -> str:
        return f"ResourceSettings({self.own!r})"


def resource_layer(values: Mapping[str, str], kind: SourceKind, name: str) -> Layer:
    """What the metadata log holds for one resource, as a layer."""
    source = Source(kind, name)
    return tuple(Given(key, value, source) for key, value in values.items())


def is_usable(row: Row | None, given: Given) -> bool:
    """Whether what was given is a value of this row."""
    if row is None or not isinstance(given.value, str):
        return False
    try:
        value = row.kind.read(trim(given.value))
    except ValueError:
        return False
    return row.check is None or bool(row.check.holds(value))
