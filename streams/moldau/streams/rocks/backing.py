"""The rows of one store of one task: committed rows in RocksDB, uncommitted ones in memory above.

Invariants: reads see every row that was written; RocksDB receives none before `TaskDatabase.commit`
stages it (`stage`). A range that was deleted hides the committed rows in it; rows that were written
into it afterwards are visible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from rocksdict import ReadOptions

from moldau.streams.rocks.failures import meaning_of, rocks_errors

if TYPE_CHECKING:
    from collections.abc import Generator

    from rocksdict import ColumnFamily, Rdict, RdictIter, WriteBatch

Row = tuple[bytes, bytes | None]
_MISSING: Final = object()
_SAMPLE: Final = 100
"""About this many rows of a write are measured, to estimate its size."""


class RocksBacking:
    """A `Backing` in one column family. Belongs to one thread at a time."""

    def __init__(self, path: str, rows: Rdict, family: ColumnFamily) -> None:
        self._path = path
        self._rows: Rdict | None = rows
        self._get = rows.get
        self._family: ColumnFamily | None = family
        self._written: dict[bytes, bytes | None] = {}
        self._deleted: list[tuple[bytes, bytes]] = []
        self._scans: WeakSet[Generator[tuple[bytes, bytes], None, None]] = WeakSet()
        self.staged_bytes = 0
        """The approximate size of the rows that are written and not committed."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is no row."""
        found = self._written.get(key, _MISSING)
        if found is not _MISSING:
            return found  # type: ignore[return-value]
        if self._deleted and self._is_deleted(key):
            return None
        return self.get_committed(key)

    def get_committed(self, key: bytes) -> bytes | None:
        """Return the committed value of a key; None if there is no committed row."""
        try:
            value: bytes | None = self._get(key)
        except Exception as error:
            raise meaning_of(error, self._path) from error
        return value

    def scan(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows with first <= key < end, ordered by key. Rows written during the scan do
        not appear in it."""
        scan = self._scan(first, end, is_reverse)
        self._scans.add(scan)
        return scan

    def scan_committed(
        self, first: bytes, end: bytes | None, *, is_reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the committed rows with first <= key < end, ordered by key."""
        scan = self._committed_rows(first, end, is_reverse)
        self._scans.add(scan)
        return scan

    def approximate_count(self) -> int:
        """Return RocksDB's own estimate, plus the number of rows that are not committed."""
        written = sum(1 for value in self._written.values() if value is not None)
        return self.approximate_committed_count() + written

    def approximate_committed_count(self) -> int:
        """Return RocksDB's own estimate."""
        assert self._rows is not None, "the store is closed"
        with rocks_errors(self._path):
            return self._rows.property_int_value("rocksdb.estimate-num-keys") or 0

    def write(self, rows: Sequence[Row]) -> None:
        """Put rows; a value of None deletes the row."""
        self._written.update(rows)
        some = rows[:: len(rows) // _SAMPLE + 1]
        size_bytes = sum(len(key) + len(value or b"") for key, value in some)
        self.staged_bytes += size_bytes * len(rows) // max(1, len(some))

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Delete the rows with first <= key < end."""
        if first >= end:
            return
        for key in [key for key in self._written if first <= key < end]:
            del self._written[key]
        self._deleted.append((first, end))

    # For the database

    def stage(self, batch: WriteBatch) -> None:
        """Add all changes that are not committed to the batch."""
        family = self._family
        for first, end in self._deleted:
            batch.delete_range(first, end, family)
        written = self._written
        for key in sorted(written):  # RocksDB takes sorted rows three times as fast
            value = written[key]
            if value is None:
                batch.delete(key, family)
            else:
                batch.put(key, value, family)

    def committed_rows(self) -> CommittedRows:
        """Return the rows without those that are not committed."""
        return CommittedRows(self)

    def committed(self) -> None:
        """Forget the staged changes: they are in RocksDB now."""
        self._written.clear()
        self._deleted.clear()
        self.staged_bytes = 0

    def clear(self) -> None:
        """Delete all rows with the next commit."""
        last = self._last_key()
        self._written.clear()
        self._deleted.clear()
        self.staged_bytes = 0
        if last is not None:
            self.delete_range(b"", last + b"\0")

    def close(self) -> None:
        """Release RocksDB, which stays open as long as anything refers to it."""
        for scan in list(self._scans):
            scan.close()
        self._rows = self._family = None
        self._get = _closed
        self._written.clear()

    def _is_deleted(self, key: bytes) -> bool:
        return any(first <= key < end for first, end in self._deleted)

    def _last_key(self) -> bytes | None:
        assert self._rows is not None
        with rocks_errors(self._path):
            last = self._rows.iter()
            last.seek_to_last()
            key: bytes | None = last.key() if last.valid() else None
            last.status()
        return key

    def _scan(
        self, first: bytes, end: bytes | None, is_reverse: bool
    ) -> Generator[tuple[bytes, bytes], None, None]:
        if not _ends_after(end, first):
            return
        below = self._committed_rows(first, end, is_reverse)
        if self._deleted:
            ranges = tuple(self._deleted)
            below = _without(below, ranges)
        if not self._written:
            yield from below
            return
        above = sorted(
            (row for row in self._written.items() if row[0] >= first and _ends_after(end, row[0])),
            reverse=is_reverse,
        )
        yield from merged_rows(below, above, is_reverse=is_reverse)

    def _committed_rows(
        self, first: bytes, end: bytes | None, is_reverse: bool
    ) -> Generator[tuple[bytes, bytes], None, None]:
        assert self._rows is not None, "the store is closed"
        bounds = ReadOptions()
        if end is not None:
            bounds.set_iterate_upper_bound(end)
        with rocks_errors(self._path):
            rows = self._rows.iter(bounds)
            try:
                if is_reverse:
                    rows.seek_to_last()
                    yield from _walk_back(rows, first)
                else:
                    rows.seek(first)
                    yield from _walk(rows)
                rows.status()  # a damaged block ends a walk just like the last row
            finally:
                del rows  # an error keeps this frame, which would keep the database open


class CommittedRows:
    """The committed rows of a backing, as a `Backing` that is only read."""

    def __init__(self, rows: RocksBacking) -> None:
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is no row."""
        return self._rows.get_committed(key)

    def scan(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows with first <= key < end, ordered by key."""
        if not _ends_after(end, first):
            return iter(())
        return self._rows.scan_committed(first, end, is_reverse=is_reverse)

    def approximate_count(self) -> int:
        """Return about how many rows there are."""
        return self._rows.approximate_committed_count()

    def write(self, rows: Sequence[Row]) -> None:
        """Never called: queries only read."""
        raise AssertionError("committed rows are only read")

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Never called: queries only read."""
        raise AssertionError("committed rows are only read")


def _walk(rows: RdictIter) -> Iterator[tuple[bytes, bytes]]:
    step, valid, key, value = rows.next, rows.valid, rows.key, rows.value
    while valid():
        yield key(), value()
        step()


def _walk_back(rows: RdictIter, first: bytes) -> Iterator[tuple[bytes, bytes]]:
    while rows.valid() and rows.key() >= first:
        yield rows.key(), rows.value()
        rows.prev()


def _without(
    rows: Generator[tuple[bytes, bytes], None, None], ranges: tuple[tuple[bytes, bytes], ...]
) -> Generator[tuple[bytes, bytes], None, None]:
    for row in rows:
        if not any(first <= row[0] < end for first, end in ranges):
            yield row


def merged_rows(
    below: Iterator[tuple[bytes, bytes]], above: Sequence[Row], *, is_reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of both by key; a row of `above` replaces the one of the same key below."""
    waiting = deque(above)
    for row in below:
        key = row[0]
        while waiting and (waiting[0][0] > key if is_reverse else waiting[0][0] < key):
            yield from _standing(waiting.popleft())
        if waiting and waiting[0][0] == key:
            yield from _standing(waiting.popleft())
        else:
            yield row
    for written in waiting:
        yield from _standing(written)


def _standing(row: Row) -> Iterator[tuple[bytes, bytes]]:
    key, value = row
    if value is not None:
        yield key, value


def _ends_after(end: bytes | None, key: bytes) -> bool:
    return end is None or key < end


def _closed(key: object, default: object = None, read_opt: object = None) -> None:
    raise AssertionError("the store is closed")
