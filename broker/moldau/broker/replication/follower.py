"""The decisions of a follower: what it must do with its log after each response of its leader.

Invariants: the log is cut only where the leader's epochs say that it differs (KIP-101, KIP-279),
and never at the replica's own high watermark. Every fetch carries the leader epoch that the replica
believes in, so a leader in another epoch returns no records (KIP-320).

Pure functions of the log's marks: `leader_fetch` calls them, and `fetcher` carries out the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.log.leader_epochs import NO_EPOCH, LeaderEpochs
from moldau.errors.codes import ErrorCode

if TYPE_CHECKING:
    from moldau.protocol.messages.fetch import EpochEndOffset


class Marks(NamedTuple):
    """The facts about a log that decide a follower's next step."""

    log_start_offset: int
    log_end_offset: int
    epochs: LeaderEpochs

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
    PAUSE = "wait a little: the leader is another one, or has trouble"


@dataclass(frozen=True, slots=True)
class FollowerAction:
    """An action, and its offset if it has one."""

    action: Action
    offset: int = -1


APPEND = FollowerAction(Action.APPEND)
ASK_ENDS = FollowerAction(Action.ASK_ENDS)
PAUSE = FollowerAction(Action.PAUSE)


def on_fetched(marks: Marks, error_code: int, diverging: EpochEndOffset) -> FollowerAction:
    """Return the step after a fetch response. APPEND: take its records and the leader's marks."""
    if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return ASK_ENDS
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
