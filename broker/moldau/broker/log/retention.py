"""Retention: moving a log's start up, and deleting the segments before it.

Invariants:
* Only whole segments are deleted, from the oldest without a gap, and only what every consumer could
  have read: a segment that ends above the high watermark stays.
* The start is durable before a file below it is renamed, and so is the name of the segment
  that becomes the first. Otherwise a power loss could bring some of the files back, and the log
  would begin with a hole.

Of a tiered log, what is old is decided outside: `raise_local_start` says how much the log itself
may lose, and its start moves by `raise_start`.

`expire` chooses and moves the start; `drop_expired` deletes. Between the two the caller makes the
start durable, once for all logs of a directory.
"""

from __future__ import annotations

from moldau.broker.log import names
from moldau.broker.log.admission import as_kafka_error
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.replacing import SegmentReplacer
from moldau.broker.log.rolling import SegmentRoller
from moldau.broker.log.segment import Segment
from moldau.broker.log.segments import Segments
from moldau.broker.log.state import LogState
from moldau.errors import CorruptRecord


class Retention:
    """The part of a log that deletes its oldest records."""

    __slots__ = ("_replacing", "_rolling", "_state")

    def __init__(self, state: LogState, rolling: SegmentRoller, replacing: SegmentReplacer) -> None:
        self._state = state
        self._rolling = rolling
        self._replacing = replacing

    def raise_start(self, offset: int) -> bool:
        """Move the log's start up to `offset` (DeleteRecords, or a leader's start). Return whether
        it moved.

        The start is durable with the next checkpoint of the directory's points; call
        `forget_epochs` after that. The segments go with the next `drop_expired`.
        """
        state = self._state
        if offset > state.high_watermark:
            state.refuse_offset(offset)
        if offset <= state.log_start_offset:
            return False
        state.begin_at(offset)
        return True

    def raise_local_start(self, offset: int) -> bool:
        """Move the start of what a tiered log holds itself up to the segment with `offset`. Return
        whether it moved. All records below it must be in remote storage. The segments go with the
        next `drop_expired`.

        It moves only when the leader epochs are durable: they say which remote records are of this
        log, and without its own batches it has them from nowhere else. Until then flushes are due,
        and the caller tries again.
        """
        state = self._state
        assert state.config.is_tiered, "what the log loses would be lost"
        if offset > state.high_watermark:
            state.refuse_offset(offset)
        base = state.segments[state.segments.index_of(offset)].base_offset
        if base <= state.local_log_start_offset:
            return False
        if not state.durability.are_epochs_durable:
            state.durability.are_epochs_wanted = True
            return False
        state.local_log_start_offset = base
        return True

    @property
    def is_head_durable(self) -> bool:
        """Whether the segment at the log's start may become the first one."""
        state = self._state
        number = state.segments.index_of(state.local_log_start_offset)
        return state.segments[number].base_offset <= state.durability.newest_head

    def expire(self, now_ms: int) -> int:
        """Raise the log's start over the segments that are to be deleted. Return how many. Call it
        for all logs of a directory before one `persist_points`. The start of a tiered log stays.
        One that is tiered no more begins where its own records do, as after a restart."""
        state = self._state
        if state.failure is not None:
            return 0
        if not state.config.is_tiered and state.log_start_offset < state.local_log_start_offset:
            state.begin_at(state.local_log_start_offset)
        state.owner.files.make_room()
        ends = state.local_log_start_offset, state.high_watermark
        try:
            count = count_expired(state.segments, state.config, now_ms, *ends)
        except OSError as error:
            state.fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
        if count == len(state.segments):
            self._rolling.roll(now_ms)
        if count and not state.config.is_tiered:
            state.begin_at(max(state.log_start_offset, state.segments[count].base_offset))
        return count

    def drop_expired(self, now_ms: int) -> int:
        """Delete the segments below the start, which must be durable. Return how many."""
        self._replacing.finish()
        state = self._state
        segments = state.segments
        count = 0
        while count + 1 < len(segments) and segments.end_of(count) <= state.local_log_start_offset:
            count += 1
        while count and segments[count].base_offset > state.durability.newest_head:
            count -= 1  # the next round deletes it, after a flush
        gone = list(segments)[:count]
        self.forget_epochs()
        try:
            for segment in gone:
                segment.rename(names.DELETED)
                state.snapshots.remove(segment.base_offset)
                state.delete_later(segment, now_ms)
        except OSError as error:
            state.fail(error)
        segments.replace_all(list(segments)[count:])
        return count

    def forget_epochs(self) -> None:
        """Drop the leader epochs below the log's start. Call it only after that start is durable:
        if the log began earlier again after a crash, it would miss them."""
        state = self._state
        if state.leader_epochs.truncate_from_start(state.log_start_offset):
            state.durability.epochs_changed()

    def remove_deleted(self, now_ms: int) -> int:
        """Remove the files of deleted segments after `file_delete_delay_ms`. Return how many."""
        due = self.take_deleted(now_ms)
        try:
            for segment in due:
                segment.remove()
        except OSError as error:
            self._state.fail(error)
        return len(due)

    def take_deleted(self, now_ms: int) -> list[Segment]:
        """Return the segments to remove, like `remove_deleted`, but leave `remove` to the caller:
        freeing a large file takes time, so the caller does it where nothing waits for it. The log
        no longer refers to these segments."""
        state = self._state
        if not state.deleted:
            return []
        due = [segment for deadline, segment in state.deleted if deadline <= now_ms]
        state.deleted = [each for each in state.deleted if each[0] > now_ms]
        for segment in due:
            segment.forget()
        return due


def count_expired(
    segments: Segments,
    config: LogConfig,
    now_ms: int,
    local_log_start_offset: int,
    high_watermark: int,
) -> int:
    """Count the oldest segments to delete, by age, by size, or because the log's start has moved
    up.

    The result may be all segments: then the caller rolls first. An empty active segment always
    stays; other empty segments, as Kafka's cleaning leaves them, may go. A compacted topic without
    `delete`, and a tiered one, lose only what lies before their start. A negative limit means no
    limit.
    """
    has_limits = config.is_deleted and not config.is_tiered
    by_size = _count_beyond_size(segments, config) if has_limits else 0
    for number, segment in enumerate(segments):
        end = segments.end_of(number)
        is_in_use = segment is segments.active
        if end > high_watermark or (is_in_use and not segment.size_bytes):
            return number
        is_before_start = not is_in_use and end <= local_log_start_offset
        is_old = has_limits and 0 <= config.retention_ms < now_ms - _newest_ms(segment)
        if not (is_before_start or is_old or number < by_size):
            return number
    return len(segments)


def _count_beyond_size(segments: Segments, config: LogConfig) -> int:
    """Count the segments that can be deleted while at least `retention_bytes` stay."""
    if config.retention_bytes < 0:
        return 0
    surplus = sum(each.size_bytes for each in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        surplus -= segment.size_bytes
        if surplus < 0:
            break
        count += 1
    return count


def _newest_ms(segment: Segment) -> int:
    """Return the newest timestamp, or the file's modification time if there is no timestamp."""
    newest = segment.max_timestamp
    return newest if newest >= 0 else segment.modified_ms
