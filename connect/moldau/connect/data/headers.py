"""The headers of a record: a list, because a key can stand there more than once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from moldau.connect.data.schema import Schema


class Header(NamedTuple):
    """One header; without a schema the value is as JSON would have it."""

    key: str
    value: Any
    schema: Schema | None = None


class Headers(list[Header]):
    """Headers in their order."""

    __slots__ = ()

    def add(self, key: str, value: Any, schema: Schema | None = None) -> None:
        """Append one header."""
        self.append(Header(key, value, schema))

    def all_of(self, key: str) -> list[Header]:
        """Every header with that key, in order."""
        return [header for header in self if header.key == key]

    def last_of(self, key: str) -> Header | None:
        """The last header with that key: the one that counts for most readers."""
        return next((header for header in reversed(self) if header.key == key), None)

    def without(self, keys: Iterable[str]) -> Headers:
        """A copy that lacks every header with one of these keys."""
        dropped = frozenset(keys)
        return Headers(header for header in self if header.key not in dropped)

    def copy(self) -> Headers:
        return Headers(self)
