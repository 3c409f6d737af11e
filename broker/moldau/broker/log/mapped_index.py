"""Entries of one size in a file that is memory: what offset and time index have in common.

Invariants: entries ascend; `count` of them are there and what lies behind them is zeros or nothing;
nothing here is trusted for more than a place to start looking, because every index can be made anew
from its log.

The file is made when the first entry comes, at its full size (sparse), and cut to its entries by
`trim` when the segment is rolled or closed. So a partition that is never written costs no mapping,
and growing costs no call. Binary search runs on the mapping; the newest entry is kept in memory,
since that is where readers at the end of the log look.

Disk space is reserved a little ahead of the entries. To store into memory whose page finds no room
on a full disk is no error that could be caught, but SIGBUS: the end of the process.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import ClassVar, Final, NoReturn

from moldau.errors import CorruptLog
from moldau.runtime.files import Files, MappedFile

_RESERVE_BYTES: Final = 4096
_RESERVE_BYTES_MAX: Final = 1 << 16


class MappedIndex(ABC):
    """An index file of one segment."""

    entry: ClassVar[struct.Struct]

    __slots__ = (
        "_capacity",
        "_files",
        "_map",
        "_reserved_bytes",
        "base_offset",
        "count",
        "path",
        "was_cut",
    )

    def __init__(self, files: Files, path: str, base_offset: int, bytes_max: int) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self._capacity = bytes_max // self.entry.size
        self._map: MappedFile | None = None
        self._reserved_bytes = 0
        self.was_cut = False
        """Whether it lost entries, which may come back with the power unless it is synced."""
        self.count = 0
        size = files.stat(path).size_bytes if files.exists(path) else 0
        self.count = size // self.entry.size
        if size % self.entry.size:
            self._refuse("index is not a whole number of entries", size_bytes=size)
        self._loaded()

    @abstractmethod
    def _loaded(self) -> None:
        """Look at the `count` entries that were found; `_refuse` them when they cannot be."""

    def _refuse(self, reason: str, **context: object) -> NoReturn:
        self.close()
        raise CorruptLog(reason, path=self.path, **context)

    @property
    def size_bytes(self) -> int:
        return self.count * self.entry.size

    @property
    def capacity(self) -> int:
        """Entries that fit."""
        return self._capacity

    def trim(self) -> None:
        """Cut the file to its entries, making it when there are none; readable as before."""
        self.close()
        with self._files.open(self.path, "write") as file:
            if file.size != self.size_bytes:
                file.truncate(self.size_bytes)

    def sync(self) -> None:
        """Make the entries durable; may run in a thread while entries are read. Without a file
        there is nothing to do: the segment was deleted meanwhile."""
        self.was_cut = False
        try:
            file = self._files.open(self.path, "update")
        except FileNotFoundError:
            return
        with file:
            file.sync()

    def close(self) -> None:
        """Unmap; the next look maps again."""
        if self._map is not None:
            self._map.close()
            self._map = None
        self._reserved_bytes = 0

    def _reset(self) -> None:
        """Forget all entries."""
        self.close()
        self.count = 0
        self.was_cut = True
        if self._files.exists(self.path):
            with self._files.open(self.path, "write") as file:
                file.truncate(0)

    def _cut(self, count: int) -> None:
        self.count = count
        self.was_cut = True
        self.trim()

    def _put(self, entry: bytes) -> None:
        """Store the next entry, of which there must be room for one."""
        size = len(entry)
        position = self.count * size
        if position + size > self._reserved_bytes:
            self._make_room(position + size)
        assert self._map is not None
        self._map.write(position, entry)
        self.count += 1

    def _make_room(self, end: int) -> None:
        """For entries up to `end`, and some more."""
        if self._map is None or len(self._map.buffer) < end:
            self._grow()
        self._reserve(end)

    def _grow(self) -> None:
        """Map the whole capacity for writing."""
        self.close()
        size = max(self._capacity, self.count + 1) * self.entry.size
        with self._files.open(self.path, "write") as file:
            file.truncate(self.size_bytes)
            file.truncate(size)
            self._map = file.map(size, writable=True)

    def _reserve(self, end: int) -> None:
        """Room on the disk for what is stored up to `end` and some more; ENOSPC if there is none.

        Twice as much each time, within limits: most segments have few entries.
        """
        step = min(max(_RESERVE_BYTES, self._reserved_bytes), _RESERVE_BYTES_MAX)
        reserved = min(-(-end // step) * step, len(self._map.buffer) if self._map else end)
        with self._files.open(self.path, "update") as file:
            file.allocate(reserved)
        self._reserved_bytes = reserved

    def _bisect(self, field: int, value: int) -> int:
        """The number of the first entry whose field is greater than `value`."""
        if not self.count:
            return 0
        buffer, read, size = self._buffer(), self.entry.unpack_from, self.entry.size
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if read(buffer, middle * size)[field] <= value:
                low = middle + 1
            else:
                high = middle
        return low

    def _buffer(self) -> memoryview:
        """The entries; there must be one."""
        if self._map is None:
            with self._files.open(self.path) as file:
                self._map = file.map(self.size_bytes)
        return self._map.buffer
