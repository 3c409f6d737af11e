"""The lookup of an offset by timestamp for ListOffsets, including the negative timestamps.

Invariants: no answer is at or above the caller's bound. The first record that is new enough is
found exactly; this is the only place where a log reads the records in a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.records.header import NO_TIMESTAMP

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


def find_offset(log: LogState, timestamp: int, upper_offset: int) -> OffsetAt | None:
    """Return the offset for a ListOffsets timestamp, or None if no record matches.

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
        found = _newest_record(log)
    else:
        found = _first_record_since(log, timestamp)
    return found if found is not None and found.offset < upper_offset else None


def _first_record_since(log: LogState, timestamp: int) -> OffsetAt | None:
    for segment in log.segments:
        if segment.max_timestamp >= timestamp:
            found = _search(segment, timestamp, log.local_log_start_offset)
            if found is not None:
                return found
    return None


def _search(segment: Segment, timestamp: int, start_offset: int) -> OffsetAt | None:
    """Return the first record of a segment with this timestamp or a later one."""
    offset = max(segment.time_index.look_up(timestamp).offset, start_offset)
    position = segment.offset_index.look_up(offset).position
    for batch in segment.batches(position):
        header = batch.header
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        for entry in batch.entries():
            if entry.timestamp >= timestamp and entry.offset >= start_offset:
                return OffsetAt(entry.timestamp, entry.offset, header.partition_leader_epoch)
    return None


def _newest_record(log: LogState) -> OffsetAt | None:
    """Return the record with the greatest timestamp, the first one if there are several. If no
    record has a timestamp, this is the first record."""
    newest = max(log.segments, key=lambda segment: segment.max_timestamp)
    return _search(newest, newest.max_timestamp, log.local_log_start_offset)
