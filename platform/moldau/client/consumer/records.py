"""The records of one partition in one fetch response, decoded batch by batch on demand. No IO.

Invariants: records are in log order, none before the requested position, none twice, and no control
batch; with read_committed none of an aborted transaction. Damaged data raises CorruptRecord with
topic, partition and offset, and nothing after it is returned. `leader_epoch` is that of the last
batch decoded, `end_epoch` that of the last whole batch in the data. The records of a part have one
`origin`: where the origin changes, another part begins.

The broker lists aborted transactions as (producer, first offset), in the order of their abort
markers. From that offset on, the producer's batches are skipped up to its abort marker. This module
sorts the list by first offset.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple

from moldau.client.base.columns import PartitionColumns
from moldau.client.base.part import UNKNOWN, Origin
from moldau.errors import CorruptRecord
from moldau.link.metadata import NO_EPOCH, TopicPartition
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.records import (
    Batch,
    Buffer,
    ColumnBuilder,
    ConsumerRecord,
    ControlType,
    K,
    Opened,
    OpenedColumns,
    TimestampType,
    V,
    control_records,
    decode_usual,
    find_last,
    read_header,
    walk,
)
from moldau.records.header import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL

_NO_RECORDS: Final[list[ConsumerRecord]] = []
_BEGIN: Final = attrgetter("first_offset")
_OFFSET: Final = attrgetter("offset")


class PartitionRecords(NamedTuple, Generic[K, V]):
    """Consecutive records of one partition and one `origin`; never empty.

    `next_offset` is where reading continues, `high_watermark` the end of what may be read.
    """

    topic: str
    partition: int
    records: Sequence[ConsumerRecord[K, V]]
    next_offset: int
    high_watermark: int
    origin: Origin = UNKNOWN

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.records[0].offset

    @property
    def timestamp_type(self) -> TimestampType:
        """The meaning of the timestamps: set by the producer (CreateTime) or by the broker."""
        return self.origin.timestamp_type

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that appended the records; -1 if unknown."""
        return self.origin.leader_epoch

    def offsets(self) -> list[int]:
        """Return the offset of each record."""
        return [each.offset for each in self.records]

    def timestamps(self) -> list[int]:
        """Return the timestamp of each record in milliseconds; -1 for a record without one."""
        return [each.timestamp for each in self.records]

    def keys(self) -> list[K]:
        """Return the key of each record: bytes or None, or what the deserializer returned."""
        return [each.key for each in self.records]

    def values(self) -> list[V]:
        """Return the value of each record: bytes or None, or what the deserializer returned."""
        return [each.value for each in self.records]

    def to_arrow(self) -> Any:
        """Return a `pyarrow.RecordBatch` with the columns topic, partition, offset, timestamp, key,
        value and headers. Without pyarrow, raise a ConfigError that says what to install."""
        from moldau.client.base.arrow import to_arrow

        return to_arrow(self.topic, self.partition, self.records)


class FetchedRecords:
    """The bytes that one fetch returned for one partition, read from `position` on."""

    def __init__(
        self,
        where: TopicPartition,
        position: int,
        data: Buffer,
        aborted: list[AbortedTransaction] | None,
        high_watermark: int,
    ) -> None:
        """With `aborted` None, return the records of all transactions."""
        self.where = where
        self.position = position
        self.size_bytes = len(data)
        self.high_watermark = high_watermark
        self.end_offset = position
        self.leader_epoch = NO_EPOCH
        self.end_epoch = NO_EPOCH
        self._aborted = None if aborted is None else deque(sorted(aborted, key=_BEGIN))
        self._skipped_producers: set[int] = set()
        self._records = _NO_RECORDS
        self._next = 0
        self._next_offset = position
        self._origin = UNKNOWN
        self._stamped = -1
        self._data = data
        self._at = 0
        self._opened_at = 0
        """Where the batches of the current `_records` begin in the data."""
        self._end = self._whole_end(data)

    def _whole_end(self, data: Buffer) -> int:
        """Find where the whole batches end: at the first one that is cut off or damaged. Only
        headers are read: batches are decoded on demand, to 700 bytes for a record of 100."""
        count, last_at = find_last(data)
        if count:
            last = read_header(data, last_at)
            self.end_offset = max(self.position, last.next_offset)
            self.end_epoch = last.partition_leader_epoch
            return last_at + last.size_bytes
        self._check(data)  # no whole batch: the reason is raised if the first is damaged
        return 0

    def check_end(self) -> None:
        """Raise CorruptRecord if a damaged batch follows the whole ones. A consumer that asks again
        from there meets it then."""
        self._check(memoryview(self._data)[self._end :])

    def _check(self, data: Buffer) -> None:
        try:
            deque(walk(data), maxlen=0)
        except CorruptRecord as error:
            raise self._told(error) from error

    def take(self, count_max: int, *, check_crc: bool) -> PartitionRecords | None:
        """Return up to `count_max` of the remaining records, or None if there are none."""
        found: list[list[ConsumerRecord]] = []
        count, origin = 0, self._origin
        while count < count_max:
            left = len(self._records) - self._next
            if not left:
                if not self._open_next(count_max - count, check_crc=check_crc, keep=not found):
                    break
                continue
            if origin is not self._origin:
                if found:
                    break
                origin = self._origin
            room = count_max - count
            if not self._next and left <= room:
                found.append(self._records)
                self._next = len(self._records)
            else:
                end = self._next + min(left, room)
                found.append(self._records[self._next : end])
                self._next = end
            count += len(found[-1])
            self.position = self._next_offset
            if self._next < len(self._records):
                self.position = self._records[self._next].offset
        if not found:
            return None
        records = found[0] if len(found) == 1 else list(chain.from_iterable(found))
        topic, partition = self.where
        return PartitionRecords(
            topic, partition, records, self.position, self.high_watermark, origin
        )

    def take_columns(self, count_max: int, *, check_crc: bool) -> PartitionColumns | None:
        """Return whole batches as columns until they have `count_max` records; None at the end."""
        if self._next < len(self._records):  # records were taken one by one before
            self.position, self._at = self._records[self._next].offset, self._opened_at
            self._records, self._next = _NO_RECORDS, 0
        builder = ColumnBuilder()
        origin = self._origin
        while builder.count < count_max and self._at < self._end:
            if builder.count and not self._has_origin(origin):
                break
            wanted = min(count_max - builder.count, self.size_bytes)
            if not self._add_columns(builder, wanted, check_crc=check_crc):
                break
            origin = self._origin
        if not builder.count:
            return None
        buffers = builder.take()
        return PartitionColumns(*self.where, buffers, self.position, self.high_watermark, origin)

    def _has_origin(self, origin: Origin) -> bool:
        """Whether the next batch has this origin."""
        header = read_header(self._data, self._at)
        is_stamped = bool(header.attributes & LOG_APPEND_TIME)
        epoch = header.partition_leader_epoch
        return (TimestampType(is_stamped), epoch) == origin

    def _add_columns(self, builder: ColumnBuilder, wanted: int, *, check_crc: bool) -> bool:
        """Add the next usual batches, or one unusual batch, to the builder. Return False and change
        nothing if it does not fit, or if it is damaged and records before it are due first."""
        unusual = CONTROL if self._aborted is None else CONTROL | TRANSACTIONAL
        opened = builder.add_usual(self._data, self._at, wanted, self.position, check_crc, unusual)
        if opened is None:
            try:
                opened = self._add_unusual(builder, check_crc=check_crc)
            except CorruptRecord as error:
                if builder.count:
                    return False
                raise self._told(error) from error
            if opened is None:
                return False
        _, self._at, next_offset, epoch, attributes = opened
        self._went_on(epoch, attributes)
        self._next_offset = self.position = max(self.position, next_offset)
        return True

    def _add_unusual(self, builder: ColumnBuilder, *, check_crc: bool) -> OpenedColumns | None:
        """Add the next batch alone, without hidden records. Return None if it does not fit."""
        batch = next(walk(self._data, self._at))
        header, before = batch.header, builder.count
        if header.next_offset > self.position:
            if check_crc:
                batch.check_crc()
            if not self._is_hidden(batch) and not batch.add_to(builder, self.position):
                return None
        return OpenedColumns(
            builder.count - before,
            batch.end,
            header.next_offset,
            header.partition_leader_epoch,
            header.attributes,
        )

    def _went_on(self, epoch: int, attributes: int) -> None:
        """Update epoch and origin after decoding batches with this epoch and these attributes."""
        self.leader_epoch = epoch
        stamped = attributes & LOG_APPEND_TIME
        if stamped != self._stamped or epoch != self._origin.leader_epoch:
            self._stamped = stamped
            self._origin = Origin(TimestampType(bool(stamped)), epoch)

    def _open_next(self, wanted: int, *, check_crc: bool, keep: bool) -> bool:
        """Decode the next batches up to `wanted` records, or up to an unusual batch. Return False
        at the end. With `keep` false, also return False at a damaged batch: the caller first
        returns the records found so far."""
        wanted = min(wanted, self.size_bytes)  # the kernel's counts are limited
        while self._at < self._end:
            opened = decode_usual(self._data, self._at, wanted, check_crc, *self.where)
            if opened is None:
                try:
                    opened = self._open_unusual(check_crc=check_crc)
                except CorruptRecord as error:
                    if keep:
                        raise self._told(error) from error
                    return False
            self._opened_at = self._at
            records, self._at, self._next_offset, self.leader_epoch, attributes = opened
            if records and records[0].offset < self.position:
                records = records[bisect_left(records, self.position, key=_OFFSET) :]
            if records:
                self._records, self._next = records, 0
                self._went_on(self.leader_epoch, attributes)
                return True
            self.position = max(self.position, self._next_offset)
        return False

    def _open_unusual(self, *, check_crc: bool) -> Opened:
        """Decode the next batch alone, of any kind; without its records if they are hidden."""
        batch = next(walk(self._data, self._at))
        header = batch.header
        records = _NO_RECORDS
        if header.next_offset > self.position:
            if check_crc:
                batch.check_crc()
            if not self._is_hidden(batch):
                records = batch.consumed(*self.where)
        return Opened(
            records,
            batch.end,
            header.next_offset,
            header.partition_leader_epoch,
            header.attributes,
        )

    def _is_hidden(self, batch: Batch) -> bool:
        """Whether applications must not see the batch. Also tracks whose batches are skipped."""
        header = batch.header
        if self._aborted is None:
            return header.is_control
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._skipped_producers.add(self._aborted.popleft().producer_id)
        if header.is_control:
            types = {each.type for each in control_records(batch)}
            if ControlType.ABORT in types:
                self._skipped_producers.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._skipped_producers

    def _told(self, error: CorruptRecord) -> CorruptRecord:
        return CorruptRecord(
            f"{error.reason}; seek past it to go on",
            **{
                **error.context,
                "topic": self.where.topic,
                "partition": self.where.partition,
                "position": self.position,
            },
        )
