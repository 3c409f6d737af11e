"""Rows of bytes under a store. Invariant: `scan` yields rows in the order of their keys."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Final, Protocol

_NUMBER: Final = Struct(">Q")

Row = tuple[bytes, bytes | None]


class Backing(Protocol):
    """The rows of one store of one task, ordered by key."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows with first <= key < end. `end` None means no upper bound."""

    def approximate_count(self) -> int:
        """Return about how many rows there are, without reading them."""

    def write(self, rows: Sequence[Row]) -> None:
        """Put rows; a value of None deletes the row. A later row of the same key wins."""

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Delete the rows with first <= key < end."""


class PrefixedBacking:
    """The rows of another backing whose keys begin with one byte; seen without that byte."""

    def __init__(self, backing: Backing, prefix: int) -> None:
        assert prefix < 0xFF
        self._backing = backing
        self._prefix = bytes([prefix])
        self._end = bytes([prefix + 1])

    def get(self, key: bytes) -> bytes | None:
        return self._backing.get(self._prefix + key)

    def scan(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        last = self._end if end is None else self._prefix + end
        for key, value in self._backing.scan(self._prefix + first, last, is_reverse=is_reverse):
            yield key[1:], value

    def approximate_count(self) -> int:
        """Count all rows of the other backing, those with other prefixes included."""
        return self._backing.approximate_count()

    def write(self, rows: Sequence[Row]) -> None:
        prefix = self._prefix
        self._backing.write([(prefix + key, value) for key, value in rows])

    def delete_range(self, first: bytes, end: bytes) -> None:
        self._backing.delete_range(self._prefix + first, self._prefix + end)


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the first key after all that begin with `prefix`; None if no key comes after them."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def first_numbers(backing: Backing, end: bytes) -> set[int]:
    """Return the distinct 8-byte numbers that rows before `end` begin with: one seek for each."""
    found: set[int] = set()
    first = b""
    while (row := next(iter(backing.scan(first, end)), None)) is not None:
        number: int = _NUMBER.unpack_from(row[0])[0]
        found.add(number)
        first = _NUMBER.pack(number + 1)
    return found


def first_rows(
    backing: Backing, first: bytes, limit: int, changed: Mapping[bytes, bool]
) -> list[bytes]:
    """Return the first `limit` keys from `first` on, in order. `changed` has what is not yet in the
    backing: True for keys that were added, False for deleted ones."""
    found = []
    for key, _ in backing.scan(first, None):
        if key not in changed:
            found.append(key)
            if len(found) == limit:
                break
    edge = found[-1] if len(found) == limit else None
    found += [
        key
        for key, comes in changed.items()
        if comes and key >= first and (edge is None or key < edge)
    ]
    found.sort()
    return found[:limit]


class MemoryBacking:
    """A backing in memory: for tests, and for stores that need not survive."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        # What has changed of the keys since they were sorted last.
        self._added: list[bytes] = []
        self._has_deleted = False

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def approximate_count(self) -> int:
        return len(self._rows)

    def scan(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        keys = self._sorted()
        low = bisect_left(keys, first)
        high = len(keys) if end is None else bisect_left(keys, end)
        found = [(key, self._rows[key]) for key in keys[low:high]]
        return iter(found[::-1] if is_reverse else found)

    def write(self, rows: Sequence[Row]) -> None:
        for key, value in rows:
            if value is None:
                if self._rows.pop(key, None) is not None:
                    self._has_deleted = True
            else:
                if key not in self._rows:
                    self._added.append(key)
                self._rows[key] = value

    def delete_range(self, first: bytes, end: bytes) -> None:
        keys = self._sorted()
        low, high = bisect_left(keys, first), bisect_left(keys, end)
        for key in keys[low:high]:
            del self._rows[key]
        del keys[low:high]

    def _sorted(self) -> list[bytes]:
        if self._has_deleted:
            # A key that was deleted and added again is in both lists.
            self._keys = list({key: None for key in self._keys + self._added if key in self._rows})
        else:
            self._keys += self._added
        if self._has_deleted or self._added:
            self._keys.sort()  # quick: most of it is in order
            self._added, self._has_deleted = [], False
        return self._keys
