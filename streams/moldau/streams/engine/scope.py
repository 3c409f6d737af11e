"""The names of a record's parts at one place of the generated source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Fields:
    """What is known of a value that is not null: sources of its fields. With `make` the value
    exists only as its fields, until a step needs it: `make` is the source that makes it. If that
    adds fields to a dict, the scope's value is the dict without them."""

    names: Mapping[str, str] = field(default_factory=dict)
    make: str | None = None
    is_dict: bool = False
    """Whether the scope's value is a dict, although its type is not declared."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of a record's parts. For a table, `value` is the new value, `old` the former.

    `fields` is None if the value may be null.
    """

    key: str
    value: str
    time: str
    headers: str
    old: str = "None"
    fields: Fields | None = None

    def changed(self, **names: str) -> Scope:
        known = None if "value" in names else self.fields
        return replace(self, fields=known, **names)

    def known(self, fields: Fields) -> Scope:
        """Return the scope of a value that is not null, of which this is known."""
        return replace(self, fields=fields)

    def arguments(self, *, is_table: bool) -> str:
        assert self.fields is None or self.fields.make is None, "the value is not made yet"
        parts = [self.key, self.value, self.time, self.headers]
        if is_table:
            parts.insert(2, self.old)
        return ", ".join(parts)


STREAM = Scope("key", "value", "time", "headers")
TABLE = Scope("key", "value", "time", "headers", "old")
