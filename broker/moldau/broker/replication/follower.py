"""The decisions of a follower: what it must do with its log after each response of its leader.

Invariants: the log is cut only where the leader's epochs say that it differs (KIP-101, KIP-279),
and never at the replica's own high watermark. Every fetch carries the leader epoch that the replica
believes in, so a leader in another epoch returns no records (KIP-320).

If the leader has what comes next in remote storage only (KIP-405), or this log has lost what it
must know of its remote records, the log begins anew further on:

1. the leader is asked where its log begins, its own records begin, and it ends;
2. `on_leader_ends` returns the offset to begin at. With `follower.fetch.last.tiered.offset.enable`
   (KIP-1023) a new replica begins where the remote records end, and copies nothing of these;
3. the leader is asked for the epoch of the record before (`point_before`), which names the remote
   segment to read;
4. if the leader agrees with that segment up to its end (`has_point`), the log begins there: the
   state at a segment's end is stored. Else it begins at the offset, and the batches between are
   read for the state there.

Pure functions of the log's marks: `leader_fetch` calls them, and `fetcher` and `rebuild` carry out
the step.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.log.leader_epochs import NO_EPOCH, EpochEnd, LeaderEpochs, LogPoint
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode

if TYPE_CHECKING:
    from moldau.protocol.messages.fetch import EpochEndOffset


class Marks(NamedTuple):
    """The facts about a log that decide a follower's next step."""

    log_start_offset: int
    log_end_offset: int
    epochs: LeaderEpochs
    is_history_known: bool = True
    """Whether the log knows the epochs and producers of its remote records."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; -1 in a log without records."""
        latest = self.epochs.latest_epoch
        return NO_EPOCH if latest is None else latest


class Action(Enum):
    """The next action of a follower."""

    APPEND = "append what came, and take over the leader's marks"
    TRUNCATE = "cut the log at `offset`, and fetch again"
    ASK_ENDS = "ask where the leader's log begins and ends"
    START_AT = "begin anew at `offset`: the leader has nothing older"
    REBUILD = "begin anew at `offset`, behind records that are in remote storage only"
    FETCH = "fetch: the leader has all that comes next"
    PAUSE = "wait a little: the leader is another one, or has trouble"


@dataclass(frozen=True, slots=True)
class FollowerAction:
    """An action, and its offset if it has one."""

    action: Action
    offset: int = -1


APPEND = FollowerAction(Action.APPEND)
ASK_ENDS = FollowerAction(Action.ASK_ENDS)
PAUSE = FollowerAction(Action.PAUSE)
FETCH = FollowerAction(Action.FETCH)
REBUILD = FollowerAction(Action.REBUILD)


class LeaderEnds(NamedTuple):
    """Where the log of a leader begins and ends. `epoch` is that in which the record at an offset
    was written, or would be."""

    log_start_offset: int
    local_start_offset: int
    local_start_epoch: int
    log_end_offset: int
    pending_offset: int = -1
    """The first offset that is not remote; -1 if the leader does not know it, or was not asked."""
    pending_epoch: int = NO_EPOCH


def on_fetched(marks: Marks, error_code: int, diverging: EpochEndOffset) -> FollowerAction:
    """Return the step after a fetch response. APPEND: take its records and the leader's marks."""
    if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return ASK_ENDS
    if error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
        return REBUILD
    if error_code:
        return PAUSE
    if diverging.epoch >= 0:
        return FollowerAction(
            Action.TRUNCATE, truncation(marks, diverging.epoch, diverging.end_offset)
        )
    return APPEND


def truncation(marks: Marks, epoch: int, end_offset: int) -> int:
    """Return the offset to cut this log at. `epoch` is the leader's largest epoch that is not above
    ours, and `end_offset` is its end. If this log does not have that epoch, the next fetch sends a
    smaller one."""
    ours = marks.epochs.end_offset_for(epoch, marks.log_end_offset)
    if ours.epoch == NO_EPOCH:
        return max(marks.log_start_offset, min(end_offset, marks.log_end_offset))
    if ours.epoch == epoch:
        return min(ours.end_offset, end_offset)
    return min(ours.end_offset, marks.log_end_offset)


def on_ends(marks: Marks, leader_start: int, leader_end: int) -> FollowerAction:
    """Return the step after a fetch outside of the leader's log, which has these ends."""
    if leader_end < marks.log_end_offset:
        return FollowerAction(
            Action.TRUNCATE, leader_end
        )  # an unclean election chose a shorter log
    if leader_start > marks.log_end_offset:
        return FollowerAction(Action.START_AT, leader_start)
    return PAUSE


def on_leader_ends(marks: Marks, ends: LeaderEnds, *, is_remote_skipped: bool) -> FollowerAction:
    """Return what a follower does when its leader has these ends: its log may have to begin behind
    remote records. `is_remote_skipped`: a new replica copies nothing that is remote already
    (KIP-1023)."""
    is_new = marks.log_end_offset == 0
    is_skipping = is_remote_skipped and is_new and ends.log_end_offset > 0
    start, local_start = ends.log_start_offset, ends.local_start_offset
    if is_skipping and ends.pending_offset < 0 and local_start > start:
        return PAUSE  # the leader has not read yet what is remote
    offset = max(local_start, ends.pending_offset) if is_skipping else local_start
    if marks.is_history_known and local_start <= marks.log_end_offset and offset == local_start:
        return FETCH
    if offset > start:
        return FollowerAction(Action.REBUILD, offset)
    return FollowerAction(Action.START_AT, start)


def epoch_at(ends: LeaderEnds, offset: int) -> int:
    """Return the epoch of the record at an offset that `on_leader_ends` chose."""
    return ends.local_start_epoch if offset == ends.local_start_offset else ends.pending_epoch


def point_before(offset: int, epoch: int, earlier: EpochEnd) -> LogPoint:
    """Return the point at an offset; the record there is of `epoch`. `earlier` is the
    leader's largest epoch below that, and its end."""
    is_earlier = earlier.epoch != NO_EPOCH and earlier.end_offset >= offset
    return LogPoint(earlier.epoch if is_earlier else epoch, offset)


def has_point(point: LogPoint, end: EpochEnd) -> bool:
    """Whether the leader has the point. `end` is its answer for the epoch of the point."""
    return end.epoch == point.epoch and end.end_offset >= point.offset
