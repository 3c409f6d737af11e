"""The changes of a task's stores in one batch, as bytes: what is kept beside the checkpoint. Pure.

A file holds operations in their order. A snapshot is a file that only puts rows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from moldau.streams.problems import StateError
from moldau.streams.state.backing import Backing, Row

_HEAD: Final = struct.Struct(">BHII")
_PUT: Final = 1
_DELETE: Final = 2
_DELETE_RANGE: Final = 3
_LEVEL: Final = 1


class StoreChange(NamedTuple):
    """One operation on a store, which is named by its place in the program.

    `end` is the end of a deleted range; else None."""

    store: int
    key: bytes
    value: bytes | None
    end: bytes | None = None


class RecordingBacking:
    """A backing that also records what is written to it."""

    def __init__(self, backing: Backing, store: int, changes: list[StoreChange]) -> None:
        self._backing = backing
        self._store = store
        self._changes = changes
        self.get = backing.get
        self.approximate_count = backing.approximate_count

    def scan(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows with first <= key < end."""
        return self._backing.scan(first, end, is_reverse=is_reverse)

    def write(self, rows: Sequence[Row]) -> None:
        """Put rows; a value of None deletes the row."""
        self._backing.write(rows)
        self._changes.extend(StoreChange(self._store, key, value) for key, value in rows)

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Delete the rows with first <= key < end."""
        self._backing.delete_range(first, end)
        self._changes.append(StoreChange(self._store, first, None, end))


def encoded(changes: Sequence[StoreChange]) -> bytes:
    """Return the changes as bytes, compressed and with a checksum."""
    parts: list[bytes] = []
    for store, key, value, end in changes:
        second = end if end is not None else value
        kind = _DELETE_RANGE if end is not None else _DELETE if value is None else _PUT
        parts += (_HEAD.pack(kind, store, len(key), len(second or b"")), key, second or b"")
    return zlib.compress(b"".join(parts), _LEVEL)


def decoded(data: bytes, name: str) -> Iterator[StoreChange]:
    """Yield the changes of a file. Raise StateError, which names the file, if it is damaged."""
    try:
        rows = zlib.decompress(data)
    except zlib.error as error:
        raise StateError(f"{name} is damaged: {error}; restore the checkpoint") from None
    at = 0
    while at < len(rows):
        kind, store, key_bytes, second_bytes = _HEAD.unpack_from(rows, at)
        at += _HEAD.size
        middle, after = at + key_bytes, at + key_bytes + second_bytes
        key, second, at = rows[at:middle], rows[middle:after], after
        if kind == _PUT:
            yield StoreChange(store, key, second)
        else:
            yield StoreChange(store, key, None, second if kind == _DELETE_RANGE else None)


def apply(changes: Iterator[StoreChange], backings: Sequence[Backing]) -> None:
    """Write the changes to the stores, in their order."""
    rows: list[list[Row]] = [[] for _ in backings]
    for store, key, value, end in changes:
        if end is None:
            rows[store].append((key, value))
            continue
        backings[store].write(rows[store])
        rows[store] = []
        backings[store].delete_range(key, end)
    for backing, left in zip(backings, rows, strict=True):
        backing.write(left)
