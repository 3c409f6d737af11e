"""The fold of a partition's remote segments, and what it serves of a log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.remote_partition import RemotePartition, RemoteRange
from moldau.broker.tiered.remote_segment import (
    SEGMENT_TRANSITIONS,
    DeletionState,
    PartitionDeletion,
    RemoteEvent,
    RemoteSegment,
    SegmentId,
    SegmentState,
    update,
)
from tests.broker.tiered.histories import OFFSETS_MAX, chains, histories
from tests.broker.tiered.segments import (
    NOW,
    TOPIC,
    TOPIC_ID,
    changed,
    copied,
    finished,
    fold,
    number_of,
    segment,
)

STARTED, FINISHED, DELETING, DELETED = SegmentState


def test_a_segment_is_served_from_the_end_of_its_copy_to_the_begin_of_its_deletion() -> None:
    remote = fold([segment(1, range(10))])
    assert remote.segment_for(0, 5) is None
    remote.replay(changed(1, FINISHED))
    assert number_of(remote.segment_for(0, 5)) == 1
    assert remote.size_bytes == 100
    remote.replay(changed(1, DELETING))
    assert remote.segment_for(0, 5) is None
    assert [each.state for each in remote.segments()] == [DELETING]
    remote.replay(changed(1, DELETED))
    assert not len(remote)
    assert remote.size_bytes == 0


@pytest.mark.parametrize("state", SegmentState)
@pytest.mark.parametrize("path", [[], [0], [0, 1], [0, 2], [0, 1, 2]])
def test_a_record_that_the_table_does_not_have_changes_nothing(
    path: list[int], state: SegmentState
) -> None:
    events: list[RemoteEvent] = [segment(1, range(10)) if at == 0 else _to(at) for at in path]
    remote = fold(events)
    before = remote.segments()
    last = before[0].state if before else None
    remote.replay(segment(1, range(10)) if state is STARTED else changed(1, state))
    is_taken = state in SEGMENT_TRANSITIONS[last]
    assert (remote.segments() == before) != is_taken


def _to(number: int) -> RemoteEvent:
    return changed(1, SegmentState(number))


def test_what_is_deleted_stays_deleted_whatever_comes_late() -> None:
    remote = fold([*finished(segment(1, range(10))), changed(1, DELETING), changed(1, DELETED)])
    for late in (FINISHED, DELETING, DELETED):
        remote.replay(changed(1, late))
    assert not len(remote)
    assert remote.segment_for(0, 5) is None


def test_the_deletion_of_a_partition_goes_step_by_step() -> None:
    remote = RemotePartition()
    seen = []
    for state in (1, 0, 2, 1, 1, 2, 0):
        remote.replay(PartitionDeletion(TOPIC_ID, 0, TOPIC, DeletionState(state), 1, NOW))
        seen.append(remote.deletion)
    assert seen == [None, 0, 0, 1, 1, 2, 2]


def test_of_overlapping_segments_the_one_that_reaches_furthest_is_read() -> None:
    remote = copied(segment(1, range(10)), segment(2, range(5, 30)), segment(3, range(20, 40)))
    assert [number_of(remote.segment_for(0, at)) for at in (4, 5, 19, 20, 39, 40)] == [
        *(1, 2, 2, 3, 3),
        None,
    ]
    assert remote.end_offset_of(0) == 40


def test_a_segment_that_was_covered_comes_back_when_what_covers_it_goes() -> None:
    remote = copied(segment(1, range(10)), segment(2, range(5, 9)), segment(3, range(20)))
    assert number_of(remote.segment_for(0, 6)) == 3
    for state in (DELETING, DELETED):
        remote.replay(changed(3, state))
    assert number_of(remote.segment_for(0, 6)) == 1
    remote.replay(changed(1, DELETING))
    assert number_of(remote.segment_for(0, 6)) == 2
    assert remote.segment_for(0, 9) is None
    assert remote.end_offset_of(0) == 9


def test_a_reader_stops_where_its_log_has_another_epoch() -> None:
    """Broker 1 copied up to 100 in epoch 1; broker 2 was elected uncleanly with 80 records."""
    remote = copied(segment(1, range(60, 100), ((1, 60),)))
    chain = LeaderEpochs([(1, 0), (2, 80)])
    assert remote.range_at(chain, 70, 120) == RemoteRange(remote.segments()[0], 70, 80)
    assert remote.range_at(chain, 80, 120) is None
    assert number_of(remote.segment_for(1, 90)) == 1


def test_a_reader_goes_on_over_epochs_that_agree() -> None:
    remote = copied(segment(1, range(100), ((1, 0), (2, 30), (4, 60))))
    (only,) = remote.segments()
    same = LeaderEpochs([(1, 0), (2, 30), (4, 60)])
    assert remote.range_at(same, 10, 300) == RemoteRange(only, 10, 100)
    assert remote.range_at(same, 10, 70) == RemoteRange(only, 10, 70)
    assert remote.range_at(same, 70, 70) is None
    other = LeaderEpochs([(1, 0), (2, 30), (3, 60)])
    assert remote.range_at(other, 10, 300) == RemoteRange(only, 10, 60)
    assert remote.range_at(LeaderEpochs([(1, 0), (3, 30)]), 10, 300) == RemoteRange(only, 10, 30)


def test_a_log_without_epochs_has_nothing_remote() -> None:
    remote = copied(segment(1, range(10)))
    assert remote.range_at(LeaderEpochs(), 5, 100) is None
    assert remote.range_at(LeaderEpochs([(0, 6)]), 5, 100) is None


def test_parts_with_a_transaction_index_follow_one_another_where_segments_overlap() -> None:
    chain = LeaderEpochs([(0, 0)])
    remote = copied(
        segment(1, range(10), has_transaction_index=True),
        segment(2, range(5, 30)),
        segment(3, range(5, 20), has_transaction_index=True),
        segment(4, range(15, 25), has_transaction_index=True),
        segment(5, range(40, 50), has_transaction_index=True),
    )

    def found(offset: int) -> list[tuple[int | None, int, int]]:
        ranges = remote.ranges_with_transaction_index(chain, offset, 100)
        return [(number_of(each), start, end) for each, start, end in ranges]

    assert found(0) == [(1, 0, 10), (3, 10, 20), (4, 20, 25), (5, 40, 50)]
    assert found(50) == []
    assert found(7) == [(3, 7, 20), (4, 20, 25), (5, 40, 50)]
    remote.replay(changed(3, SegmentState.DELETE_STARTED))
    assert found(0) == [(1, 0, 10), (4, 15, 25), (5, 40, 50)], "the one between has no marker"


def test_an_update_names_the_next_state_alone() -> None:
    begun = segment(1, range(10))
    assert update(begun, FINISHED, broker_id=4, now_ms=9).broker_id == 4
    with pytest.raises(AssertionError):
        update(begun, DELETED, broker_id=4, now_ms=9)


# Against a model that looks at every segment for every offset.


def _holding(remote: RemotePartition, epoch: int, offset: int) -> Iterator[RemoteSegment]:
    for each in remote.segments():
        for span in each.spans if each.state is FINISHED else ():
            if span.epoch == epoch and span.start_offset <= offset < span.end_offset:
                yield each


@given(histories())
def test_a_look_up_finds_what_a_look_at_all_segments_finds(events: list[RemoteEvent]) -> None:
    remote = fold(events)
    epochs = {span.epoch for each in remote.segments() for span in each.spans}
    for epoch, offset in product([*epochs, 77], range(OFFSETS_MAX)):
        holding = list(_holding(remote, epoch, offset))
        found = remote.segment_for(epoch, offset)
        assert (found is None) == (not holding)
        if found is not None:
            assert found in holding
            assert _reach(found, epoch) == max(_reach(each, epoch) for each in holding)
    served = [each.size_bytes for each in remote.segments() if each.state is FINISHED]
    assert remote.size_bytes == sum(served)


def _reach(of: RemoteSegment, epoch: int) -> int:
    return next(span.end_offset for span in of.spans if span.epoch == epoch)


offsets = st.integers(0, OFFSETS_MAX)


@given(histories(), chains(), offsets, offsets)
def test_a_range_has_the_epochs_of_the_log_at_every_offset(
    events: list[RemoteEvent], chain: LeaderEpochs, begin: int, log_end: int
) -> None:
    remote = fold(events)
    covered = set()
    for found in remote.ranges(chain, begin, log_end):
        for offset in range(found.start_offset, found.end_offset):
            epoch = chain.epoch_for_offset(offset)
            assert epoch is not None
            assert found.segment in _holding(remote, epoch, offset)
            covered.add(offset)
    if covered:
        stop = max(covered) + 1
        epoch = chain.epoch_for_offset(stop)
        assert stop >= log_end or epoch is None or not list(_holding(remote, epoch, stop))


@given(histories(), chains(), offsets, offsets)
def test_the_next_range_begins_at_the_first_offset_that_is_remote(
    events: list[RemoteEvent], chain: LeaderEpochs, begin: int, log_end: int
) -> None:
    remote = fold(events)
    epochs = ((at, chain.epoch_for_offset(at)) for at in range(begin, log_end))
    held = [at for at, epoch in epochs if epoch is not None and any(_holding(remote, epoch, at))]
    found = remote.next_range(chain, begin, log_end)
    assert (None if found is None else found.start_offset) == (held[0] if held else None)
    parts = remote.ranges(chain, begin, log_end, over_holes=True)
    assert [at for each in parts for at in range(each.start_offset, each.end_offset)] == held


@given(histories(), chains(), offsets, offsets)
def test_the_end_without_a_hole_is_that_of_the_last_range(
    events: list[RemoteEvent], chain: LeaderEpochs, begin: int, log_end: int
) -> None:
    remote = fold(events)
    ends = [begin, *(each.end_offset for each in remote.ranges(chain, begin, log_end))]
    assert remote.end_without_hole(chain, begin, log_end) == ends[-1]


@given(histories(), chains(), offsets, offsets)
def test_a_segment_that_the_log_has_nothing_of_is_outside(
    events: list[RemoteEvent], chain: LeaderEpochs, begin: int, log_end: int
) -> None:
    remote = fold(events)
    assert chain.latest is not None
    log_end = max(log_end, chain.latest.start_offset)
    outside = remote.segments_outside(chain, begin, log_end)
    held: set[SegmentId] = set()
    for offset in range(begin, log_end):
        epoch = chain.epoch_for_offset(offset)
        held.update(() if epoch is None else (each.id for each in _holding(remote, epoch, offset)))
    assert [each for each in remote.segments() if each in outside] == outside
    assert {each.id for each in remote.segments()} - held <= {each.id for each in outside}


def test_no_segment_in_the_middle_of_a_log_is_outside() -> None:
    parts = [segment(1 + at // 10, range(at, at + 10)) for at in range(0, 1_000, 10)]
    remote = copied(*parts)
    outside = remote.segments_outside(LeaderEpochs([(0, 0)]), 25, 985)
    assert [number_of(each) for each in outside] == [1, 2, 100]
