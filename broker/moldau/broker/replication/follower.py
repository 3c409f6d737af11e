"""A replica that follows: what it asks its leader for, and what the answer means for its log.

Invariants: the log is cut only where the leader's epochs say that it differs (KIP-101, KIP-279),
and never by the own high watermark; every fetch carries the leader epoch that the replica believes
in, so a leader of another one answers nothing (KIP-320).

Pure functions of the log's marks: the shell (`shell`) carries out the step.
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
    """What of a log matters here."""

    log_start_offset: int
    log_end_offset: int
    epochs: LeaderEpochs

    @property
    def last_epoch(self) -> int:
        """Of the last record; -1 in a log that has none."""
        latest = self.epochs.latest_epoch
        return NO_EPOCH if latest is None else latest


class Action(Enum):
    """What a follower does next."""

    APPEND = "append what came, and take over the leader's marks"
    TRUNCATE = "cut the log at `offset`, and fetch again"
    ASK_ENDS = "ask where the leader's log begins and ends"
    START_AT = "begin anew at `offset`: the leader has nothing older"
    PAUSE = "wait a little: the leader is another one, or has trouble"


@dataclass(frozen=True, slots=True)
class Step:
    """See `Action`."""

    action: Action
    offset: int = -1


APPEND = Step(Action.APPEND)
ASK_ENDS = Step(Action.ASK_ENDS)
PAUSE = Step(Action.PAUSE)


def on_fetched(marks: Marks, error_code: int, diverging: EpochEndOffset) -> Step:
    """What an answer without records means; APPEND when there is nothing to say against it."""
    if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return ASK_ENDS
    if error_code:
        return PAUSE
    if diverging.epoch >= 0:
        return Step(Action.TRUNCATE, truncation(marks, diverging.epoch, diverging.end_offset))
    return APPEND


def truncation(marks: Marks, epoch: int, end_offset: int) -> int:
    """Where this log leaves the leader's, whose largest epoch not above ours is `epoch`, which ends
    at `end_offset`. If this log does not know the epoch, it is asked again with a smaller one."""
    ours = marks.epochs.end_offset_for(epoch, marks.log_end_offset)
    if ours.epoch == NO_EPOCH:
        return max(marks.log_start_offset, min(end_offset, marks.log_end_offset))
    if ours.epoch == epoch:
        return min(ours.end_offset, end_offset)
    return min(ours.end_offset, marks.log_end_offset)


def on_ends(marks: Marks, leader_start: int, leader_end: int) -> Step:
    """The fetch was out of the leader's range: that is where its log begins and ends."""
    if leader_end < marks.log_end_offset:
        return Step(Action.TRUNCATE, leader_end)  # an unclean election chose a shorter log
    if leader_start > marks.log_end_offset:
        return Step(Action.START_AT, leader_start)
    return PAUSE
