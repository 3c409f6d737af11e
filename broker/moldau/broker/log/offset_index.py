"""The offset index: where in a segment's log to start reading for an offset (`.index`).

An entry is the last offset of some batch, minus the segment's base offset, and the position where
that batch begins. An entry is added every `index.interval.bytes`, so a lookup ends in a short walk
through the log.

Invariant: offsets and positions both ascend strictly.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from moldau.broker.log.mapped_index import MappedIndex


class OffsetPosition(NamedTuple):
    """The position where a batch begins, and an offset in the batch or before it."""

    offset: int
    position: int


class OffsetIndex(MappedIndex):
    """The offset index of one segment."""

    entry = struct.Struct(">ii")

    __slots__ = ("last_offset", "last_position")

    def _loaded(self) -> None:
        self.last_offset, self.last_position = self.base_offset, 0
        if self.count:
            self._remember_last()
            if self.last_offset <= self.base_offset and self.count > 1:
                self._refuse("offset index does not ascend", last_offset=self.last_offset)
            if self.last_offset < self.base_offset or self.last_position < 0:
                self._refuse("offset index is out of range", last_offset=self.last_offset)

    @property
    def is_full(self) -> bool:
        return self.count >= self.capacity

    def append(self, offset: int, position: int) -> None:
        """Add an entry for a batch that ends with `offset` and begins at `position`."""
        if self.count:
            assert offset > self.last_offset, "offsets ascend"
        self._put(self.entry.pack(offset - self.base_offset, position))
        self.last_offset, self.last_position = offset, position

    def look_up(self, offset: int) -> OffsetPosition:
        """Return the last entry that is not beyond `offset`, or the segment's start if there is
        none. A batch that holds `offset` begins there or later."""
        if not self.count:
            return OffsetPosition(self.base_offset, 0)
        if offset >= self.last_offset:
            return OffsetPosition(self.last_offset, self.last_position)
        index = self._bisect(0, offset - self.base_offset)
        return OffsetPosition(self.base_offset, 0) if index == 0 else self.at(index - 1)

    def position_before(self, position: int) -> int:
        """Return where a batch begins, at this position or as little before it as is known."""
        index = self._bisect(1, position)
        return self.at(index - 1).position if index else 0

    def upper_bound(self, position: int) -> int | None:
        """Return an offset above everything that lies before `position`, or None if the index has
        no entry for that."""
        if not self.count or position > self.last_position:
            return None
        index = self._bisect(1, position - 1)
        return self.at(index).offset if index < self.count else None

    def at(self, index: int) -> OffsetPosition:
        """Return the entry with this number."""
        assert 0 <= index < self.count
        relative, position = self.entry.unpack_from(self._buffer(), index * self.entry.size)
        return OffsetPosition(self.base_offset + relative, position)

    def entries(self) -> list[OffsetPosition]:
        """Return all entries."""
        return [self.at(index) for index in range(self.count)]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end with `offset` or later."""
        if self.count and offset <= self.last_offset:
            self._cut(self._bisect(0, offset - self.base_offset - 1))
            self._remember_last()

    def reset(self) -> None:
        """Drop all entries."""
        self._reset()
        self._remember_last()

    def _remember_last(self) -> None:
        self.last_offset, self.last_position = (
            self.at(self.count - 1) if self.count else (self.base_offset, 0)
        )
