"""Where a follower begins whose leader has what comes next in remote storage only."""

from __future__ import annotations

from typing import Final

import pytest

from moldau.broker.log.leader_epochs import EpochEnd, LeaderEpochs, LogPoint
from moldau.broker.replication import follower
from moldau.broker.replication.follower import FETCH, PAUSE, REBUILD, Action, LeaderEnds, Marks
from moldau.broker.replication.leader import Leader
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.fetch import EpochEndOffset

CODE: Final = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


def marks(end: int, *, start: int = 0, is_history_known: bool = True) -> Marks:
    return Marks(start, end, LeaderEpochs([(1, 0)] if end else []), is_history_known)


def decided(known: Marks, ends: LeaderEnds, *, skips: bool = False) -> tuple[Action, int]:
    step = follower.on_leader_ends(known, ends, is_remote_skipped=skips)
    return step.action, step.offset


def test_the_leader_says_that_what_comes_next_is_remote() -> None:
    assert follower.on_fetched(marks(5), CODE, EpochEndOffset()) is REBUILD


def test_a_log_begins_where_its_leaders_own_records_do() -> None:
    ends = LeaderEnds(10, 60, 3, 90)
    assert decided(marks(20), ends) == (Action.REBUILD, 60)


def test_a_log_begins_where_its_leader_does_if_nothing_is_remote() -> None:
    assert decided(marks(5), LeaderEnds(60, 60, 3, 90)) == (Action.START_AT, 60)


def test_a_log_goes_on_if_its_leader_has_what_comes_next() -> None:
    assert decided(marks(70), LeaderEnds(10, 60, 3, 90)) == (FETCH.action, -1)


@pytest.mark.parametrize("end", [20, 70])
def test_a_log_without_its_history_begins_anew_whatever_its_leader_has(end: int) -> None:
    known = marks(end, is_history_known=False)
    assert decided(known, LeaderEnds(10, 60, 3, 90)) == (Action.REBUILD, 60)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (LeaderEnds(0, 0, 0, 90, 80, 5), (Action.REBUILD, 80)),
        (LeaderEnds(10, 60, 3, 90, 80, 5), (Action.REBUILD, 80)),
        (LeaderEnds(0, 0, 0, 90, 0, 0), (FETCH.action, -1)),  # nothing is remote
        (LeaderEnds(0, 0, 0, 90, -1), (FETCH.action, -1)),
        (LeaderEnds(10, 60, 3, 90, -1), (PAUSE.action, -1)),  # the leader does not know it yet
        (LeaderEnds(0, 0, 0, 0, 0, 0), (FETCH.action, -1)),  # a new topic
        (LeaderEnds(60, 60, 0, 90, 60, 0), (Action.START_AT, 60)),
    ],
)
def test_a_new_replica_may_skip_what_is_remote(
    ends: LeaderEnds, expected: tuple[Action, int]
) -> None:
    assert decided(marks(0), ends, skips=True) == expected


def test_only_a_new_replica_skips_what_is_remote() -> None:
    assert decided(marks(20), LeaderEnds(10, 60, 3, 90, 80, 5), skips=True) == (Action.REBUILD, 60)


@pytest.mark.parametrize(
    ("earlier", "epoch"),
    [
        (EpochEnd(2, 60), 2),  # the epoch of the record at 60 begins there
        (EpochEnd(2, 40), 3),
        (EpochEnd(-1, -1), 3),  # it is the first one
    ],
)
def test_a_point_has_the_epoch_of_the_record_before_it(earlier: EpochEnd, epoch: int) -> None:
    assert follower.point_before(60, 3, earlier) == LogPoint(epoch, 60)


def test_a_leader_agrees_with_a_segment_up_to_the_end_of_its_epoch() -> None:
    end = LogPoint(3, 80)
    assert follower.has_point(end, EpochEnd(3, 80))
    assert not follower.has_point(end, EpochEnd(3, 79)), "its records of that epoch end before"
    assert not follower.has_point(end, EpochEnd(2, 90)), "it does not have the epoch"


def test_what_any_replica_that_may_be_elected_still_serves_is_not_below_the_low_watermark() -> None:
    leader = Leader(1, (1, 2), 3, 0)
    leader.begin(0, 0)
    assert leader.low_watermark(50) == -1, "the start of 2 is unknown"

    leader.on_log_start(2, 40)
    leader.on_log_start(3, 20)
    assert leader.low_watermark(50) == 40, "3 is not in sync"
    assert leader.low_watermark(30) == 30

    leader.propose((1, 2, 3))
    assert leader.low_watermark(50) == 20, "3 may be in sync already"
