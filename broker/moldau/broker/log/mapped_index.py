"""A file of fixed-size entries in mapped memory: the base of the offset and time index.

Invariants: entries ascend. There are `count` of them, and behind them are only zeros or nothing. An
index is only used to find a place to start reading, because every index can be rebuilt from its
log.

The file is created with the first entry, at its full size (sparse). `trim` cuts it to its entries
when the segment is rolled or closed. Binary search runs on a mapping. The newest entry is kept in
memory, since readers at the end of the log need that one.

The first entries are written to the file without a mapping: a mapping, its first page fault and
reserved space cost more than a few writes, and most indexes of new topics get only a few entries.
From `MAPPED_FROM` entries on the index is mapped, and an entry needs no call.

With a mapping, disk space is reserved a little ahead of the entries. When the disk is full, a store
into a mapped page without disk space raises no error that could be caught: SIGBUS ends the process.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import ClassVar, Final, NoReturn

from moldau.broker.log.file_pool import NO_POOL, FilePool
from moldau.errors import CorruptLog
from moldau.runtime.files import File, Files, MappedFile

MAPPED_FROM: Final = 8
"""The number of entries that are written without a mapping."""
_RESERVE_BYTES: Final = 4096
_RESERVE_BYTES_MAX: Final = 1 << 16


class MappedIndex(ABC):
    """An index file of one segment."""

    entry: ClassVar[struct.Struct]

    __slots__ = (
        "_capacity",
        "_files",
        "_map",
        "_pool",
        "_reserved_bytes",
        "_uses",
        "base_offset",
        "count",
        "path",
        "was_cut",
    )

    def __init__(
        self,
        files: Files,
        path: str,
        base_offset: int,
        bytes_max: int,
        size_bytes: int | None = None,
    ) -> None:
        """Open the file of `size_bytes`, or of the size that it is found to have. 0 is also for a
        file that does not exist."""
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self._capacity = bytes_max // self.entry.size
        self._map: MappedFile | None = None
        self._pool: FilePool = NO_POOL
        self._uses = 0
        self._reserved_bytes = 0
        self.was_cut = False
        """Whether entries were removed. A power loss may bring them back until the file is
        synced."""
        self.count = 0
        if size_bytes is None:
            size_bytes = files.stat(path).size_bytes if files.exists(path) else 0
        self.count = size_bytes // self.entry.size
        if size_bytes % self.entry.size:
            self._refuse("index is not a whole number of entries", size_bytes=size_bytes)
        self._loaded()

    @abstractmethod
    def _loaded(self) -> None:
        """Check the `count` entries that were found. Call `_refuse` if they are invalid."""

    def _refuse(self, reason: str, **context: object) -> NoReturn:
        self.close()
        raise CorruptLog(reason, path=self.path, **context)

    @property
    def size_bytes(self) -> int:
        return self.count * self.entry.size

    @property
    def capacity(self) -> int:
        """The number of entries that fit."""
        return self._capacity

    def trim(self) -> None:
        """Cut the file to its entries, and create it if there are none. It can be read as
        before."""
        self.close()
        with self._files.open(self.path, "write") as file:
            if file.size != self.size_bytes:
                file.truncate(self.size_bytes)

    def sync(self) -> None:
        """Make the entries durable. May run in a thread while entries are read. If the file is
        gone, the segment was deleted meanwhile: do nothing."""
        self.was_cut = False
        try:
            file = self._files.open(self.path, "update")
        except FileNotFoundError:
            return
        with file:
            file.sync()

    def close(self) -> None:
        """Unmap the file. The next read maps it again."""
        if self._map is not None:
            self._pool.discard(self)
            self._map.close()
            self._map = None
        self._reserved_bytes = 0

    def join(self, pool: FilePool) -> None:
        """Let the pool unmap the file when it is not used."""
        self._pool = pool
        if self._map is not None:
            pool.admit(self)

    def activity(self) -> int:
        """Return a number that changes with each new entry and each search."""
        return self.count + self._uses

    def release_files(self) -> None:
        """Unmap the file."""
        self.close()

    def _reset(self) -> None:
        """Drop all entries."""
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
        """Store the next entry. The index must have room for it."""
        size = len(entry)
        position = self.count * size
        if position + size > self._reserved_bytes:
            if self._map is None and self.count < MAPPED_FROM:
                self._write(position, entry)
                return
            self._make_room(position + size)
        assert self._map is not None
        self._map.write(position, entry)
        self.count += 1

    def _write(self, position: int, entry: bytes) -> None:
        """Store an entry without a mapping. A full disk raises ENOSPC."""
        with self._files.open(self.path, "write") as file:
            self._extend(file)
            file.write_at(position, entry)
        self.count += 1

    def _make_room(self, end: int) -> None:
        """Make room for entries up to `end`, and some more."""
        if self._map is None or len(self._map.buffer) < end:
            self._grow()
        self._reserve(end)

    def _grow(self) -> None:
        """Map the whole capacity for writing."""
        self.close()
        with self._files.open(self.path, "write") as file:
            self._map = file.map(self._extend(file), writable=True)
        self._pool.admit(self)

    def _extend(self, file: File) -> int:
        """Give the file its full size, with zeros behind the entries. Return that size."""
        size = max(self._capacity, self.count + 1) * self.entry.size
        if file.size != size:
            if file.size > self.size_bytes:
                file.truncate(self.size_bytes)
            file.truncate(size)
        return size

    def _reserve(self, end: int) -> None:
        """Reserve disk space up to `end` and some more. Raise ENOSPC if there is none.

        Each step doubles the space, within limits: most segments have few entries.
        """
        step = min(max(_RESERVE_BYTES, self._reserved_bytes), _RESERVE_BYTES_MAX)
        reserved = min(-(-end // step) * step, len(self._map.buffer) if self._map else end)
        with self._files.open(self.path, "update") as file:
            file.allocate(reserved)
        self._reserved_bytes = reserved

    def _bisect(self, field: int, value: int) -> int:
        """Return the number of the first entry whose field is greater than `value`."""
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
        """Return the mapped entries. There must be at least one."""
        self._uses += 1
        if self._map is None:
            with self._files.open(self.path) as file:
                self._map = file.map(self.size_bytes)
            self._pool.admit(self)
        return self._map.buffer
