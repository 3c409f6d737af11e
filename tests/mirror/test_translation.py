"""Offset syncs: which are written, and how offsets are translated with them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from moldau.client import TopicPartition
from moldau.mirror.emission import SyncEmission
from moldau.mirror.formats import Checkpoint, OffsetSync
from moldau.mirror.translation import Checkpoints, SyncHistory, offsets_to_set

WHERE = TopicPartition("orders", 0)


def emitted(emission: SyncEmission) -> list[tuple[int, int]]:
    return [(each.upstream, each.downstream) for each in emission.ready()]


def history(*points: tuple[int, int]) -> SyncHistory:
    found = SyncHistory()
    for point in points:
        found.on_sync(*point)
    return found


def test_the_first_record_has_a_sync_and_the_last_gets_one_with_the_commit() -> None:
    emission = SyncEmission(100)

    emission.on_delivered(WHERE, range(10, 20), 5)
    assert emitted(emission) == [(10, 5)]
    emission.on_commit()
    assert emitted(emission) == [(19, 14)]
    emission.on_commit()
    assert emitted(emission) == []


def test_one_of_so_many_records_as_the_lag_allows_has_a_sync() -> None:
    emission = SyncEmission(2)

    emission.on_delivered(WHERE, range(5), 0)
    emission.on_delivered(WHERE, range(5, 10), 5)

    assert emitted(emission) == [(0, 0), (3, 3), (6, 6), (9, 9)]


def test_a_gap_of_the_source_is_in_the_syncs() -> None:
    emission = SyncEmission(0)

    emission.on_delivered(WHERE, [3, 8, 9], 0)

    assert emitted(emission) == [(3, 0), (8, 1), (9, 2)]


def test_a_log_that_began_anew_gets_a_sync_at_once() -> None:
    emission = SyncEmission(100)
    emission.on_delivered(WHERE, range(50), 0)
    emission.ready()

    emission.on_delivered(WHERE, range(3), 50)
    assert emitted(emission) == [(0, 50)]
    emission.on_delivered(WHERE, range(3, 6), 0)
    assert emitted(emission) == [(3, 0)]


def test_an_offset_that_the_broker_did_not_tell_makes_no_sync() -> None:
    emission = SyncEmission(0)

    emission.on_delivered(WHERE, [1, 2], -1)
    emission.on_commit()

    assert emitted(emission) == []


def test_an_offset_is_translated_by_the_last_sync_before_it() -> None:
    syncs = history((10, 100), (20, 105))

    assert syncs.translate(20) == 105
    assert syncs.translate(21) == 106
    assert syncs.translate(90) == 106
    assert syncs.translate(10) == 100
    assert syncs.translate(15) == 101
    assert syncs.translate(9) is None


def test_syncs_of_a_log_that_began_anew_replace_all_earlier_ones() -> None:
    assert history((10, 10), (20, 20), (5, 30)).points == [(5, 30)]
    assert history((10, 10), (20, 20), (30, 0)).points == [(30, 0)]


def test_few_of_many_syncs_are_kept_and_the_newest_are_exact() -> None:
    syncs = history(*((at, at) for at in range(20_000)))

    assert len(syncs.points) < 150
    assert syncs.translate(19_999) == 19_999
    for offset in range(0, 20_000, 37):
        found = syncs.translate(offset)
        assert found is not None
        assert offset - found <= (20_000 - offset) / 8 + 1


@given(
    gaps=st.lists(st.integers(1, 5), min_size=1, max_size=60),
    markers=st.lists(st.integers(0, 3), min_size=60, max_size=60),
    lag_max=st.integers(0, 20),
    cuts=st.sets(st.integers(0, 59)),
)
def test_no_translation_passes_over_a_record(
    gaps: Sequence[int], markers: Sequence[int], lag_max: int, cuts: set[int]
) -> None:
    """A source with gaps, a target with markers between any two parts of what was copied."""
    upstream, downstream, source, target = 0, 0, [], []
    emission, syncs = SyncEmission(lag_max), SyncHistory()
    part: list[int] = []
    for at, gap in enumerate(gaps):
        upstream += gap
        source.append(upstream)
        target.append(downstream + len(part))
        part.append(upstream)
        if at in cuts or at == len(gaps) - 1:
            emission.on_delivered(WHERE, part, downstream)
            emission.on_commit()
            downstream, part = downstream + len(part) + markers[at], []
    for sync in emission.ready():
        syncs.on_sync(sync.upstream, sync.downstream)

    for offset in range(upstream + 2):
        found = syncs.translate(offset)
        left = [down for up, down in zip(source, target, strict=True) if up >= offset]
        if found is not None and left:
            assert found <= left[0]
    assert syncs.translate(upstream + 1) == target[-1] + 1


def checkpoint(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("billing", WHERE, upstream, downstream)


def test_a_checkpoint_never_moves_back_while_its_group_moves_on() -> None:
    known = Checkpoints()

    assert known.on_checkpoint(checkpoint(10, 10))
    assert not known.on_checkpoint(checkpoint(10, 10))
    assert not known.on_checkpoint(checkpoint(12, 4))
    assert known.on_checkpoint(checkpoint(12, 11))
    assert known.on_checkpoint(checkpoint(3, 2))
    assert known.of_group("billing") == [checkpoint(3, 2)]
    assert known.of_group("other") == []


def test_an_offset_on_the_target_that_is_further_stays() -> None:
    assert offsets_to_set([checkpoint(9, 5)], {}) == {WHERE: 5}
    assert offsets_to_set([checkpoint(9, 5)], {WHERE: 4}) == {WHERE: 5}
    assert offsets_to_set([checkpoint(9, 5)], {WHERE: 5}) == {}
    assert offsets_to_set([checkpoint(9, 5)], {WHERE: 8}) == {}


def test_a_sync_is_of_the_partition_that_was_delivered() -> None:
    emission = SyncEmission(0)
    other = TopicPartition("orders", 1)

    emission.on_delivered(other, [4], 2)

    assert emission.ready() == [OffsetSync(other, 4, 2)]
