"""The lookup of an offset by timestamp for ListOffsets, including the negative timestamps.

Invariants: no answer is at or above the caller's bound. The first record that is new enough is
found exactly; this is the only place where a log reads the records in a batch. A batch that takes
long to read is not read here: a few kilobytes decompress to a hundred megabytes. It is a
`LargeLookup`, for a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.log.admission import as_kafka_error
from moldau.errors import CorruptRecord
from moldau.records import Batch, Codec, OversizedRecords
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX, USUAL_BYTES_MAX
from moldau.records.header import NO_TIMESTAMP
from moldau.records.parts import first_since

if TYPE_CHECKING:
    from moldau.broker.log.segment import Segment
    from moldau.broker.log.state import LogState

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

NO_OFFSET: Final = -1


class OffsetAt(NamedTuple):
    """The result of a lookup. `timestamp` is -1 if the request was not for a record."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class LargeLookup(NamedTuple):
    """The rest of a lookup: the record is in this batch, if in none before, and it takes long to
    find it there. The batch is a copy, and `run` may be called in a thread."""

    batch: Batch
    timestamp: int
    start_offset: int
    record_bytes_max: int

    @property
    def next_offset(self) -> int:
        """Where to go on if the record is not in the batch."""
        return self.batch.header.next_offset

    def run(self) -> OffsetAt | None:
        """Look for the record in the batch. Raise KafkaError if the batch is damaged."""
        try:
            return _first_in(self, DECOMPRESSED_BYTES_MAX)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error


def find_offset(
    log: LogState, timestamp: int, upper_offset: int, start_offset: int = 0
) -> OffsetAt | LargeLookup | None:
    """Return the offset for a ListOffsets timestamp, or None if no record matches. With
    `start_offset` records from there on are looked for, after a `LargeLookup`.

    `upper_offset` is the end of what the client may see: high watermark, last stable offset, or log
    end. The log does not know what is in remote storage, so its answer for the timestamps that ask
    for that is the offset -1.
    """
    if timestamp == LATEST:
        return OffsetAt(NO_TIMESTAMP, upper_offset, log.leader_epochs.latest_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset if timestamp == EARLIEST else log.local_log_start_offset
        return OffsetAt(NO_TIMESTAMP, start, log.leader_epochs.epoch_for_offset(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return OffsetAt(NO_TIMESTAMP, NO_OFFSET, None)
    if timestamp == MAX_TIMESTAMP:
        found = _newest_record(log, start_offset)
    else:
        found = _first_record_since(log, timestamp, start_offset)
    if isinstance(found, OffsetAt) and found.offset >= upper_offset:
        return None
    return found


def _first_record_since(
    log: LogState, timestamp: int, start_offset: int
) -> OffsetAt | LargeLookup | None:
    segments = log.segments
    start_offset = max(start_offset, log.local_log_start_offset)
    for number in range(segments.index_of(start_offset), len(segments)):
        if segments[number].max_timestamp >= timestamp:
            found = _search(log, segments[number], timestamp, start_offset)
            if found is not None:
                return found
    return None


def _search(
    log: LogState, segment: Segment, timestamp: int, start_offset: int
) -> OffsetAt | LargeLookup | None:
    """Return the first record of a segment with this timestamp or a later one."""
    offset = max(segment.time_index.look_up(timestamp).offset, start_offset)
    position = segment.offset_index.look_up(offset).position
    for batch in segment.batches(position):
        header = batch.header
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        limit = DECOMPRESSED_BYTES_MAX if batch.codec is Codec.NONE else USUAL_BYTES_MAX
        record_bytes_max = log.config.max_decompressed_message_bytes
        lookup = LargeLookup(batch, timestamp, start_offset, record_bytes_max)
        try:
            found = _first_in(lookup, limit)
        except OversizedRecords:
            return lookup._replace(batch=Batch(header, memoryview(bytes(batch.data))))
        if found is not None:
            return found
    return None


def _first_in(lookup: LargeLookup, limit: int) -> OffsetAt | None:
    batch, timestamp, start_offset, record_bytes_max = lookup
    entry = first_since(batch, timestamp, start_offset, limit, record_bytes_max)
    if entry is None:
        return None
    return OffsetAt(entry.timestamp, entry.offset, batch.header.partition_leader_epoch)


def _newest_record(log: LogState, start_offset: int) -> OffsetAt | LargeLookup | None:
    """Return the record with the greatest timestamp, the first one if there are several. If no
    record has a timestamp, this is the first record."""
    newest = max(log.segments, key=lambda segment: segment.max_timestamp)
    start_offset = max(start_offset, log.local_log_start_offset)
    return _search(log, newest, newest.max_timestamp, start_offset)
