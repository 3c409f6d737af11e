"""The headers of a record. They are a list, because a key can occur more than once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from moldau.connect.data.schema import Schema


class Header(NamedTuple):
    """One header. A value without a schema is a JSON value."""

    key: str
    value: Any
    schema: Schema | None = None


class Headers(list[Header]):
    """A list of headers, in order."""

    __slots__ = ()

    def add(self, key: str, value: Any, schema: Schema | None = None) -> None:
        """Append one header."""
        self.append(Header(key, value, schema))

    def all_of(self, key: str) -> list[Header]:
        """Return every header with that key, in order."""
        return [header for header in self if header.key == key]

    def last_of(self, key: str) -> Header | None:
        """Return the last header with that key, which is the one that most readers use."""
        return next((header for header in reversed(self) if header.key == key), None)

    def without(self, keys: Iterable[str]) -> Headers:
        """Return a copy without the headers that have one of these keys."""
        dropped = frozenset(keys)
        return Headers(header for header in self if header.key not in dropped)

    def copy(self) -> Headers:
        return Headers(self)
