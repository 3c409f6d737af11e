"""What goes of both tiers, and what must not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.copying import LocalLog, copied_end
from moldau.broker.tiered.expiry import (
    DeletionReason,
    Leadership,
    Retention,
    deletions,
    first_offset,
    local_start,
    retained_start,
    unreferenced,
)
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import RemoteEvent, RemoteSegment, SegmentState
from tests.broker.tiered.histories import OFFSETS_MAX, chains, histories
from tests.broker.tiered.segments import (
    NOW,
    Pairs,
    changed,
    copied,
    id_of,
    local_log,
    number_of,
    segment,
)

EVERYTHING = Retention()
TENS = tuple(segment(1 + at // 10, range(at, at + 10)) for at in range(0, 50, 10))
"""Five segments of ten records and 100 bytes each."""


def going(
    remote: RemotePartition, log: LocalLog, leadership: Leadership, *, is_remote: bool = True
) -> list[tuple[int | None, DeletionReason]]:
    found = deletions(remote, log, leadership, is_remote=is_remote)
    return [(number_of(each.segment), each.reason) for each in found]


# The start of the log.


def test_old_parts_of_both_tiers_go_from_the_oldest_on() -> None:
    aged = [segment(1 + at // 10, range(at, at + 10), max_timestamp_ms=at) for at in (0, 10, 20)]
    log = local_log(20, 30, 40, 45, max_timestamp_ms=31)
    ages = {0: 0, 1: 10, 10: 10, 11: 20, 20: 20, 31: 20, 32: 40, 999: 40}
    found = {now: retained_start(copied(*aged), log, Retention(ms=0), now_ms=now) for now in ages}
    assert found == ages


def test_what_is_in_both_tiers_counts_once() -> None:
    """Five remote segments, of which two are local too; one that is local only; the active one."""
    log = local_log(30, 40, 50, 60, 63)
    starts = [
        retained_start(copied(*TENS), log, Retention(size_bytes=size), NOW)
        for size in (700, 601, 600, 500, 499, 0)
    ]
    assert starts == [0, 0, 10, 20, 20, 60]


def test_nothing_above_the_high_watermark_goes() -> None:
    log = local_log(0, 10, 20, 25, high_watermark=15)
    assert retained_start(RemotePartition(), log, Retention(size_bytes=0), NOW) == 10


def test_retention_goes_over_a_hole() -> None:
    log = local_log(40, 50, 55)
    remote = copied(TENS[0], TENS[2])
    starts = [
        retained_start(remote, log, Retention(size_bytes=size), NOW) for size in (400, 300, 200, 0)
    ]
    assert starts == [0, 10, 30, 50]


@pytest.mark.parametrize(
    ("numbers", "log_start", "first"),
    [
        ([1, 2, 3], 0, 0),
        ([1, 2, 3], 5, 5),
        ([2, 3], 0, 10),
        ([1, 3], 0, 0),
        ([1, 3], 10, 20),
        ([1, 2], 20, 30),
        ([], 0, 30),
        ([1, 2, 3], 33, 33),
    ],
)
def test_a_new_leader_begins_where_a_tier_has_its_log(
    numbers: list[int], log_start: int, first: int
) -> None:
    log = local_log(30, 40, 45, log_start=log_start)
    assert first_offset(copied(*(TENS[at - 1] for at in numbers)), log) == first


def test_a_new_leader_does_not_count_what_is_of_another_history() -> None:
    remote = copied(segment(1, range(20), ((1, 0),)), segment(2, range(20, 40), ((1, 20),)))
    log = local_log(40, 50, 55, epochs=((1, 0), (3, 30)), log_start=30)
    assert first_offset(remote, log) == 40


# Remote segments.


def test_a_segment_goes_when_no_replica_in_sync_serves_it() -> None:
    log = local_log(50, 60, 65, log_start=40)
    below = DeletionReason.BELOW_START
    for low_watermark, gone in ((0, []), (19, [(1, below)]), (20, [(1, below), (2, below)])):
        assert going(copied(*TENS), log, Leadership(5, low_watermark)) == gone


def test_a_deletion_that_has_begun_goes_on() -> None:
    remote = copied(*TENS)
    remote.replay(changed(4, SegmentState.DELETE_STARTED))
    assert going(remote, local_log(50, 60, 65), Leadership(5, 0)) == [(4, DeletionReason.BEGUN)]


def test_a_copy_that_no_task_of_the_leader_makes_goes() -> None:
    remote = copied(*TENS[:2])
    remote.replay(TENS[2])
    log = local_log(0, 10, 20, 30, 35)
    assert going(remote, log, Leadership(5, 0)) == [(3, DeletionReason.UNFINISHED)]
    assert going(remote, log, Leadership(5, 0, copying={id_of(3)})) == []


@pytest.mark.parametrize(
    ("epochs", "chain", "leader_epoch", "is_lost"),
    [
        (((1, 0),), ((1, 0),), 1, False),
        (((1, 0),), ((1, 0), (3, 15)), 3, False),  # a part of it is of this log
        (((2, 10),), ((1, 0), (3, 10)), 3, True),
        (((2, 10),), ((1, 0), (3, 40)), 3, True),  # epoch 2 is not in the chain at all
        (((1, 0),), ((3, 0),), 3, True),  # an empty replica was elected
        (((1, 0),), ((1, 0), (3, 10)), 3, True),  # the log has epoch 1, but only below 10
        (((2, 10),), ((1, 0),), 1, False),  # of a successor
        (((2, 10),), ((1, 0),), 2, False),  # its own epoch
        (((1, 10), (2, 15)), ((1, 0), (3, 15)), 3, False),
    ],
)
def test_a_segment_of_a_lost_history_goes(
    epochs: Pairs, chain: Pairs, leader_epoch: int, is_lost: bool
) -> None:
    remote = copied(segment(1, range(10, 20), epochs))
    found = going(remote, local_log(0, 60, 65, epochs=chain), Leadership(leader_epoch, 0))
    assert found == ([(1, DeletionReason.LOST_HISTORY)] if is_lost else [])


def test_a_segment_below_a_raised_start_is_not_lost_but_waits_for_the_replicas() -> None:
    log = local_log(0, 60, 65, epochs=((3, 40),), log_start=40)
    remote = copied(segment(1, range(10, 20), ((1, 10),)))
    assert going(remote, log, Leadership(3, 19)) == []
    assert going(remote, log, Leadership(3, 20)) == [(1, DeletionReason.BELOW_START)]


def test_a_partition_that_is_no_longer_remote_keeps_nothing_there() -> None:
    log = local_log(20, 60, 65, log_start=20)
    remote = copied(*TENS[:3])
    assert [each for each, _ in going(remote, log, Leadership(5, 20), is_remote=False)] == [1, 2, 3]


def test_old_objects_of_segments_that_the_topic_does_not_know_are_unreferenced() -> None:
    remote = copied(*TENS[:2])
    remote.replay(TENS[2])
    stored = {id_of(number): 10 * number for number in (9, 1, 3, 7, 8)}
    assert unreferenced(stored, remote, 80) == [id_of(7), id_of(8)]


# The local log.


@pytest.mark.parametrize(
    ("retention", "start"),
    [
        (Retention(), 0),
        (Retention(ms=0), 20),
        (Retention(size_bytes=0), 20),
        (Retention(size_bytes=200), 20),
        (Retention(size_bytes=201), 10),
        (Retention(size_bytes=400), 0),
    ],
)
def test_local_segments_go_when_they_are_remote_and_not_kept(
    retention: Retention, start: int
) -> None:
    log = local_log(0, 10, 20, 30, 35)
    assert local_start(copied(*TENS[:2]), log, retention, NOW + 1) == start


def test_local_segments_stay_that_are_remote_in_another_history() -> None:
    remote = copied(segment(1, range(10), ((1, 0),)), segment(2, range(10, 20), ((1, 10),)))
    log = local_log(0, 10, 20, 25, epochs=((1, 0), (2, 15)))
    assert local_start(remote, log, Retention(size_bytes=0), NOW) == 10


def test_local_segments_stay_above_the_high_watermark() -> None:
    log = local_log(0, 10, 20, 25, high_watermark=19)
    assert local_start(copied(*TENS[:2]), log, Retention(size_bytes=0), NOW) == 10


def test_local_segments_below_the_start_of_the_log_go_though_they_are_not_remote() -> None:
    log = local_log(0, 10, 20, 25, log_start=13)
    assert local_start(RemotePartition(), log, EVERYTHING, NOW) == 10


numbers = st.sets(st.integers(1, 5))
sizes = st.integers(-1, 700)


@given(numbers, numbers, st.integers(0, 50), sizes, sizes, st.integers(0, 65))
def test_no_record_that_is_wanted_is_in_no_tier(
    held: set[int], going_on: set[int], log_start: int, size: int, local_size: int, mark: int
) -> None:
    remote = copied(*(TENS[number - 1] for number in held))
    for number in going_on & held:
        remote.replay(changed(number, SegmentState.DELETE_STARTED))
    log = local_log(0, 10, 20, 30, 40, 50, 65, log_start=log_start, high_watermark=mark)
    start = retained_start(remote, log, Retention(size_bytes=size), NOW)
    cut = local_start(remote, log, Retention(size_bytes=local_size), NOW)
    gone = {each.segment.id for each in deletions(remote, log, Leadership(5, log_start))}
    left = [each for each in remote.segments() if each.id not in gone]
    assert log_start <= start <= max(log_start, mark)
    assert cut <= max(copied_end(remote, log), log_start)
    for offset in range(log_start, cut):
        assert any(_serves(each, offset) for each in left)


class WalkedPartition(RemotePartition):
    """Says of all segments that they may be outside of a log, and too many."""

    def segments_outside(
        self, chain: LeaderEpochs, start_offset: int, log_end_offset: int
    ) -> list[RemoteSegment]:
        return self.segments()

    def segments_from(self, offset: int) -> list[RemoteSegment]:
        return []


offsets = st.integers(0, OFFSETS_MAX)


@given(histories(), chains(), offsets, offsets, st.integers(0, 20), st.integers(-1, 200))
def test_a_walk_over_all_segments_finds_no_other_ones(
    events: list[RemoteEvent],
    chain: LeaderEpochs,
    log_start: int,
    local: int,
    epoch: int,
    size: int,
) -> None:
    remote, walked = RemotePartition(), WalkedPartition()
    for event in events:
        remote.replay(event)
        walked.replay(event)
    ends = (*range(local, OFFSETS_MAX + 1, 3), OFFSETS_MAX + 1)
    log = local_log(*ends, epochs=chain.entries, log_start=log_start, size_bytes=5)
    leadership = Leadership(epoch, log_start)
    assert deletions(remote, log, leadership) == deletions(walked, log, leadership)
    walked.size_bytes += 1_000
    retention = Retention(size_bytes=size)
    assert retained_start(remote, log, retention, NOW) == retained_start(
        walked, log, retention, NOW
    )


def _serves(segment: RemoteSegment, offset: int) -> bool:
    is_served = segment.state is SegmentState.COPY_FINISHED
    return is_served and segment.start_offset <= offset < segment.end_offset
