"""The time index: the offset from which records may be newer than a timestamp (`.timeindex`).

An entry is the greatest timestamp of the segment so far, and the last offset of the batch with it,
minus the base offset. Records before that offset are not newer.

Invariants: timestamps ascend strictly, offsets ascend. The last entry of a rolled segment is the
segment's greatest timestamp, so retention by time need not read the log.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Final, NamedTuple

from moldau.broker.log.mapped_index import MappedIndex
from moldau.records.header import NO_TIMESTAMP


class TimestampOffset(NamedTuple):
    """A timestamp and an offset."""

    timestamp: int
    offset: int


_new_last: Final = partial(tuple.__new__, TimestampOffset)
"""Make the tuple directly from both fields: for each batch this is cheaper than calling the
class."""


class TimeIndex(MappedIndex):
    """The time index of one segment."""

    entry = struct.Struct(">qi")

    __slots__ = ("last",)

    def _loaded(self) -> None:
        self.last = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        if self.count:
            self._remember_last()
            if self.last.offset < self.base_offset or self.last.timestamp < self.at(0).timestamp:
                self._refuse("time index is out of range", last=tuple(self.last))

    @property
    def is_full(self) -> bool:
        """Whether no more entries may be added. One is kept free for the segment's greatest
        timestamp, which is added when the segment is rolled."""
        return self.count >= self.capacity - 1

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry for a new greatest timestamp. Ignore a timestamp that is not greater."""
        last_timestamp, last_offset = self.last
        if timestamp <= last_timestamp:
            return
        assert offset >= last_offset, "offsets ascend"
        self._put(self.entry.pack(timestamp, offset - self.base_offset))
        self.last = _new_last((timestamp, offset))

    def look_up(self, timestamp: int) -> TimestampOffset:
        """Return the last entry that is not newer than `timestamp`, or the segment's start."""
        if timestamp >= self.last.timestamp:
            return self.last
        index = self._bisect(0, timestamp)
        if index == 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return self.at(index - 1)

    def at(self, index: int) -> TimestampOffset:
        """Return the entry with this number."""
        assert 0 <= index < self.count
        timestamp, relative = self.entry.unpack_from(self._buffer(), index * self.entry.size)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def entries(self) -> list[TimestampOffset]:
        """Return all entries."""
        return [self.at(index) for index in range(self.count)]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of `offset` and later offsets."""
        if self.count and offset <= self.last.offset:
            self._cut(self._bisect(1, offset - self.base_offset - 1))
            self._remember_last()

    def reset(self) -> None:
        """Drop all entries."""
        self._reset()
        self._remember_last()

    def _remember_last(self) -> None:
        self.last = (
            self.at(self.count - 1)
            if self.count
            else TimestampOffset(NO_TIMESTAMP, self.base_offset)
        )
