"""The `.txnindex` file beside a segment: the transactions that a marker in the segment aborted.

Invariants: entries are in the order of their markers (`last_offset`). The file holds exactly the
entries in memory, and it exists once there was an entry. All of it can be rebuilt from the log.

The entries stay in memory as the packed bytes of the file (34 for a transaction), read at first
use. Nearly every segment has none. A fetch finds its first entry by binary search instead of a
scan.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from moldau.errors import CorruptLog
from moldau.runtime.files import Files

VERSION: Final = 0

_ENTRY: Final = struct.Struct(">hqqqq")
_LAST_OFFSET_AT: Final = 2 + 8 + 8
_INT64: Final = struct.Struct(">q")


class AbortedTransaction(NamedTuple):
    """An aborted transaction, from its first record to its marker.

    All transactions below `last_stable_offset` were decided when the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment."""

    def __init__(
        self, files: Files, path: str, base_offset: int, packed: bytearray | None = None
    ) -> None:
        """`packed` are the bytes of a file that lies elsewhere: they are not read from `path`."""
        self.path = path
        self._files = files
        self._base_offset = base_offset
        self._packed = packed  # None: not read yet
        self._is_dirty = False

    @property
    def is_empty(self) -> bool:
        return not self._entries()

    @property
    def size_bytes(self) -> int:
        return len(self._entries())

    def append(self, *aborted: AbortedTransaction) -> None:
        """Add entries. Their markers must be in order, behind all markers in the index."""
        if not aborted:
            return
        entries = self._entries()
        added = bytearray()
        last = self._last_offset_at(len(entries) - _ENTRY.size) if entries else -1
        for transaction in aborted:
            assert transaction.last_offset > last, "markers are indexed in the order of the log"
            last = transaction.last_offset
            added += _ENTRY.pack(VERSION, *transaction)
        self._is_dirty = True
        with self._files.open(self.path, "write") as file:
            file.write_at(len(entries), added)
        entries += added

    def collect(
        self, fetch_offset: int, upper_bound: int, end_offset: int | None = None
    ) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that overlap `fetch_offset` to `upper_bound` (exclusive), and
        whether these are all.

        If not, the next segment's index must be read too: the marker of a transaction may be there.
        With `end_offset` markers from there on do not count: the log has another history there.
        """
        found = []
        for transaction in self._from(fetch_offset):
            if end_offset is not None and transaction.last_offset >= end_offset:
                break
            if transaction.first_offset < upper_bound:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def all(self) -> list[AbortedTransaction]:
        """Return every entry, in the order of the markers."""
        return list(self._from(self._base_offset))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker is at `offset` or beyond."""
        position = self._position_of(offset)
        if position < len(self._entries()):
            self._cut(position)

    def reset(self) -> None:
        """Drop all entries."""
        self._packed = bytearray()
        if self._files.exists(self.path):
            self._is_dirty = True
            with self._files.open(self.path, "write") as file:
                file.truncate(0)

    def check(self) -> None:
        """Raise CorruptLog unless the file holds only whole entries, in order, that belong to this
        segment."""
        entries = self._entries()
        if len(entries) % _ENTRY.size:
            raise CorruptLog(
                "transaction index ends within an entry", path=self.path, size_bytes=len(entries)
            )
        previous = self._base_offset - 1
        for version, _, first, last, stable in _ENTRY.iter_unpack(entries):
            if version != VERSION:
                raise CorruptLog("unknown transaction index", path=self.path, version=version)
            if last <= previous or not 0 <= first <= last or stable < 0:
                raise CorruptLog(
                    "transaction index is out of order",
                    path=self.path,
                    first_offset=first,
                    last_offset=last,
                    after=previous,
                )
            previous = last

    def sync(self) -> None:
        """Make the entries durable, but not the file's name. May run in a thread."""
        if not self._is_dirty:
            return
        if self._files.exists(self.path):
            with self._files.open(self.path, "update") as file:
                file.sync()
        self._is_dirty = False

    def rename(self, path: str) -> None:
        """Use another path after the segment was renamed, and rename the file if it exists."""
        self.close()
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def close(self) -> None:
        """Drop the entries in memory. The next use reads them again."""
        self._packed = None

    def remove(self) -> None:
        """Remove the file, if it exists."""
        self._is_dirty = False
        self.close()
        if self._files.exists(self.path):
            self._files.remove(self.path)

    def _entries(self) -> bytearray:
        entries = self._packed
        if entries is None:
            entries = bytearray()
            if self._files.exists(self.path):
                with self._files.open(self.path) as file:
                    entries += file.read_at(0, file.size)
            self._packed = entries
        return entries

    def _cut(self, position: int) -> None:
        del self._entries()[position:]
        self._is_dirty = True
        with self._files.open(self.path, "write") as file:
            file.truncate(position)

    def _last_offset_at(self, position: int) -> int:
        offset: int = _INT64.unpack_from(self._entries(), position + _LAST_OFFSET_AT)[0]
        return offset

    def _position_of(self, offset: int) -> int:
        """Return the position of the first entry whose marker is at `offset` or beyond."""
        low, high = 0, len(self._entries()) // _ENTRY.size
        while low < high:
            middle = (low + high) // 2
            if self._last_offset_at(middle * _ENTRY.size) < offset:
                low = middle + 1
            else:
                high = middle
        return low * _ENTRY.size

    def _from(self, offset: int) -> Iterator[AbortedTransaction]:
        entries = self._entries()
        for position in range(self._position_of(offset), len(entries), _ENTRY.size):
            yield AbortedTransaction._make(_ENTRY.unpack_from(entries, position)[1:])


def collect_aborted(
    indexes: Iterable[TransactionIndex], fetch_offset: int, upper_bound: int
) -> list[AbortedTransaction]:
    """Return the transactions that a read_committed fetch must skip. `indexes` begin with the index
    of the fetch's first segment."""
    found: list[AbortedTransaction] = []
    for index in indexes:
        more, complete = index.collect(fetch_offset, upper_bound)
        found += more
        if complete:
            break
    return found
