"""Look-ups in the indexes of a remote segment, on the bytes of Kafka's files.

Invariants: an index says only where to begin to look: the batches decide. A position that an index
names lies in the log and is the beginning of a batch. What cannot be true is CorruptLog.

The entries are those of the local indexes (`OffsetIndex.entry`, `TimeIndex.entry`), which map files
and grow. These are bytes that were read once and do not change.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import TYPE_CHECKING, Final

from moldau.broker.log.offset_index import OffsetIndex
from moldau.broker.log.time_index import TimeIndex
from moldau.broker.log.transaction_index import TransactionIndex
from moldau.broker.tiered.segment_objects import ChunkCodec, Section, SegmentIndexes
from moldau.errors import CorruptLog

if TYPE_CHECKING:
    from moldau.broker.tiered.remote_segment import RemoteSegment
    from moldau.records import Buffer
    from moldau.runtime.files import Files

_OFFSET: Final = 0
_POSITION: Final = 1
_TIMESTAMP: Final = 0


class RemoteIndexes:
    """A segment that is open for reading: its codec, its manifest and its indexes."""

    __slots__ = (
        "_offsets",
        "_times",
        "chunk_bytes",
        "codec",
        "indexes",
        "log_bytes",
        "segment",
        "transactions",
    )

    def __init__(
        self, segment: RemoteSegment, codec: ChunkCodec, indexes: SegmentIndexes, files: Files
    ) -> None:
        self.segment = segment
        self.codec = codec
        self.indexes = indexes
        self.log_bytes = indexes.manifest.log_bytes
        self.chunk_bytes = indexes.manifest.chunk_bytes
        self._offsets = _Entries(segment, indexes, Section.OFFSET_INDEX, OffsetIndex.entry)
        self._times = _Entries(segment, indexes, Section.TIME_INDEX, TimeIndex.entry)
        packed = bytearray(indexes.sections.get(Section.TRANSACTION_INDEX, b""))
        self.transactions = TransactionIndex(
            files, f"{segment.id}.txnindex", segment.start_offset, packed
        )
        self.transactions.check()

    @property
    def size_bytes(self) -> int:
        return self.indexes.size_bytes + self.transactions.size_bytes

    def section(self, kind: Section) -> Buffer | None:
        """Return the bytes of one of Kafka's files, if the segment has it."""
        return self.indexes.sections.get(kind)

    def position_of(self, offset: int) -> int:
        """Return a position from which the batch with `offset`, or the next one, is found soon."""
        number = self._offsets.count_up_to(_OFFSET, offset - self.segment.start_offset)
        return self._position(number)

    def batch_start_up_to(self, position: int) -> int:
        """Return the last indexed beginning of a batch that is not beyond `position`."""
        return self._position(self._offsets.count_up_to(_POSITION, position))

    def offset_since(self, timestamp: int) -> int:
        """Return an offset in the first batch with a record of `timestamp` or newer, or in a batch
        before it."""
        number = self._times.count_up_to(_TIMESTAMP, timestamp)
        if not number:
            return self.segment.start_offset
        return self.segment.start_offset + self._times.at(number - 1)[1]

    def _position(self, number: int) -> int:
        """Return the position of the entry before this number."""
        if not number:
            return 0
        position = self._offsets.at(number - 1)[_POSITION]
        if not 0 <= position < self.log_bytes:
            raise CorruptLog(
                "remote offset index leads out of the log",
                segment=str(self.segment.id),
                position=position,
            )
        return position


class _Entries:
    """Entries of a fixed size that ascend in each field."""

    __slots__ = ("_data", "_entry", "count")

    def __init__(
        self, segment: RemoteSegment, indexes: SegmentIndexes, kind: Section, entry: Struct
    ) -> None:
        self._data = indexes.sections.get(kind, b"")
        self._entry = entry
        self.count, rest = divmod(len(self._data), entry.size)
        if rest:
            raise CorruptLog(
                "remote index is not a whole number of entries",
                segment=str(segment.id),
                index=kind.name.lower(),
            )

    def at(self, number: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(self._data, number * self._entry.size)
        return first, second

    def count_up_to(self, field: int, value: int) -> int:
        """Return how many entries have a field that is not above `value`."""
        return bisect_right(range(self.count), value, key=lambda number: self.at(number)[field])
