"""Offsets, limits and ranges of a batch."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moldau.client import TopicPartition
from moldau.spark.ranges import (
    TOPIC_RECREATED,
    BatchIds,
    OffsetRange,
    available_count,
    from_checkpoint,
    ids_from_checkpoint,
    is_first_start,
    limited_end,
    ranges_and_losses,
    split_ranges,
    starts_of_batch,
    to_checkpoint,
    with_start,
)

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)

OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5)),
    st.integers(0, 10_000),
    min_size=1,
)


@given(OFFSETS)
def test_a_checkpoint_reads_as_it_was_written(offsets: dict[TopicPartition, int]) -> None:
    assert from_checkpoint(to_checkpoint(offsets)) == offsets
    assert ids_from_checkpoint(to_checkpoint(offsets)) == {}


@given(OFFSETS)
def test_ids_of_topics_stand_beside_their_offsets(offsets: dict[TopicPartition, int]) -> None:
    written = to_checkpoint(offsets, {"b": "2", "a": "1"})

    assert from_checkpoint(written) == offsets
    assert ids_from_checkpoint(written) == {"a": "1", "b": "2"}
    assert list(written)[-1] == "$ids"


@given(OFFSETS, st.integers(1, 5_000))
def test_a_limit_is_kept_and_progress_is_made(
    latest: dict[TopicPartition, int], limit: int
) -> None:
    start = dict.fromkeys(latest, 0)

    end = limited_end(start, latest, limit)

    assert all(0 <= end[where] <= latest[where] for where in latest)
    taken = sum(end.values())
    assert taken <= limit + len(latest)
    assert taken > 0 or not available_count(start, latest)


def test_partitions_share_a_limit_by_what_they_have() -> None:
    assert limited_end({P0: 0, P1: 0}, {P0: 900, P1: 100}, 100) == {P0: 90, P1: 10}


def test_a_partition_that_is_gone_stays_where_it_was() -> None:
    assert limited_end({P0: 5, P1: 7}, {P0: 9}, None) == {P0: 9, P1: 7}


def test_what_was_deleted_is_a_loss_and_the_rest_is_read() -> None:
    ranges, lost = ranges_and_losses({P0: 0, P1: 0}, {P0: 10, P1: 10}, {P0: 4, P1: 0})

    assert ranges == [OffsetRange(P0, 4, 10), OffsetRange(P1, 0, 10)]
    assert [(each.where, each.reason) for each in lost] == [(P0, "offsets 0 to 4 were deleted")]


def test_a_topic_made_again_is_a_loss_and_is_read_from_its_beginning() -> None:
    ranges, lost = ranges_and_losses({P0: 50}, {P0: 3}, {P0: 0})

    assert ranges == [OffsetRange(P0, 0, 3)]
    assert "made again" in lost[0].reason


def test_a_topic_made_again_with_as_many_records_is_a_loss() -> None:
    ids = BatchIds({"t": "old"}, {"t": "new"}, {"t": "new"})

    ranges, lost = ranges_and_losses({P0: 10}, {P0: 25}, {P0: 2}, ids)

    assert ranges == [OffsetRange(P0, 2, 25, "new")]
    assert [each.reason for each in lost] == [TOPIC_RECREATED]


def test_nothing_of_a_batch_is_read_from_a_later_topic_of_the_name() -> None:
    ids = BatchIds({"t": "old"}, {"t": "old"}, {"t": "new"})

    ranges, lost = ranges_and_losses({P0: 10}, {P0: 25}, {P0: 0}, ids)

    assert ranges == []
    assert [each.reason for each in lost] == [TOPIC_RECREATED]


def test_a_checkpoint_without_ids_goes_on() -> None:
    assert ranges_and_losses({P0: 1}, {P0: 3}, {P0: 0}, BatchIds({}, {"t": "1"}, {"t": "1"})) == (
        [OffsetRange(P0, 1, 3, "1")],
        [],
    )


def test_nothing_of_a_log_that_lost_its_end_is_read_again() -> None:
    ids = BatchIds({"t": "1"}, {"t": "1"}, {"t": "1"})

    ranges, lost = ranges_and_losses({P0: 50}, {P0: 30}, {P0: 0}, ids)

    assert ranges == []
    assert [each.reason for each in lost] == ["the log ends at 30, before 50: the log lost its end"]


def test_the_first_batch_has_its_own_start_in_its_end() -> None:
    begun = to_checkpoint({P0: 5}, {"t": "1"})
    first = with_start(begun, begun)
    end = with_start(to_checkpoint({P0: 9}, {"t": "1"}), first)

    assert end["$start"] == begun
    assert from_checkpoint(end) == {P0: 9}
    assert ids_from_checkpoint(end) == {"t": "1"}
    assert is_first_start(first)
    assert not is_first_start(end)
    later = with_start(to_checkpoint({P0: 7}), to_checkpoint({P0: 7}))
    assert starts_of_batch(later, end) == begun
    assert starts_of_batch(end, to_checkpoint({P0: 12})) == end


def test_a_first_batch_of_an_earlier_version_starts_nowhere_after_its_end() -> None:
    begun = to_checkpoint({P0: 9, P1: 2})

    starts = starts_of_batch(with_start(begun, begun), to_checkpoint({P0: 5, P1: 5}))

    assert from_checkpoint(starts) == {P0: 5, P1: 2}


def test_a_partition_that_is_gone_is_a_loss() -> None:
    ranges, lost = ranges_and_losses({P0: 0}, {P0: 3}, {})

    assert ranges == []
    assert [each.reason for each in lost] == ["the partition no longer exists"]


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(1, 20))
def test_pieces_cover_their_range_once(first: int, second: int, count: int) -> None:
    whole = [OffsetRange(P0, 0, first), OffsetRange(P1, 10, 10 + second)]

    pieces = split_ranges(whole, count)

    for each in whole:
        mine = [piece for piece in pieces if piece.where == each.where]
        assert [mine[0].start, mine[-1].end] == [each.start, each.end]
        assert all(left.end == right.start for left, right in pairwise(mine))
        assert all(piece.length > 0 for piece in mine)


def test_pieces_have_a_greatest_length() -> None:
    assert [each.length for each in split_ranges([OffsetRange(P0, 0, 25)], None, 10)] == [8, 8, 9]
