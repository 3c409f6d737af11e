"""Where a follower cuts its log: by epochs, never by its own high watermark."""

from __future__ import annotations

import pytest

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.replication import follower
from moldau.broker.replication.follower import (
    APPEND,
    ASK_ENDS,
    PAUSE,
    Action,
    FollowerAction,
    Marks,
)
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.fetch import EpochEndOffset

NONE = EpochEndOffset()


def marks(end: int, *epochs: tuple[int, int], start: int = 0) -> Marks:
    return Marks(start, end, LeaderEpochs(epochs))


def test_the_last_epoch_is_that_of_the_last_record() -> None:
    assert marks(0).last_epoch == -1
    assert marks(9, (1, 0), (4, 5)).last_epoch == 4


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((4, 7), 7),  # both know epoch 4; the leader's ends first
        ((4, 20), 10),  # ours ends first
        ((2, 3), 3),  # the leader never had 4; ours of 2 goes on too far
        ((2, 9), 5),  # ours of 2 ends where 4 begins
        ((3, 8), 5),  # we have no 3: ask again with 2
        ((0, 4), 0),  # nothing in common
    ],
)
def test_it_is_cut_where_it_leaves_the_leaders(told: tuple[int, int], expected: int) -> None:
    ours = marks(10, (2, 0), (4, 5))
    step = follower.on_fetched(ours, 0, EpochEndOffset(epoch=told[0], end_offset=told[1]))
    assert step == FollowerAction(Action.TRUNCATE, expected)


def test_an_answer_without_objection_is_appended() -> None:
    assert follower.on_fetched(marks(3, (1, 0)), 0, NONE) is APPEND


def test_what_the_leader_refuses_is_asked_again_later() -> None:
    code = ErrorCode.FENCED_LEADER_EPOCH
    assert follower.on_fetched(marks(3, (1, 0)), code, NONE) is PAUSE
    code = ErrorCode.OFFSET_OUT_OF_RANGE
    assert follower.on_fetched(marks(3, (1, 0)), code, NONE) is ASK_ENDS


def test_out_of_the_leaders_range_it_is_cut_or_begins_anew() -> None:
    ours = marks(10, (1, 0))
    assert follower.on_ends(ours, 0, 4) == FollowerAction(Action.TRUNCATE, 4)
    assert follower.on_ends(ours, 12, 40) == FollowerAction(Action.START_AT, 12)
    assert follower.on_ends(ours, 0, 40) is PAUSE
