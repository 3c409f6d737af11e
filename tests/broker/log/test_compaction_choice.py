"""Which log is cleaned, and up to where."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from moldau.broker.log.compaction_choice import (
    Cleanable,
    CompactionPolicy,
    LogEnds,
    choose,
    examine,
)

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000


@dataclass
class FakeSegment:
    base_offset: int
    size_bytes: int = 100
    max_timestamp: int = NOW - HOUR_MS
    first_timestamp: int | None = NOW - 2 * HOUR_MS


SEGMENTS = [FakeSegment(base) for base in (0, 10, 20, 30)]
ENDS = LogEnds(0, 35, 35)


def found(
    cleaned: int | None,
    policy: CompactionPolicy | None = None,
    ends: LogEnds = ENDS,
    segments: list[FakeSegment] = SEGMENTS,
) -> Cleanable:
    return examine(segments, ends, cleaned, policy or CompactionPolicy(), NOW)


def test_all_but_the_active_segment_of_a_new_log_is_dirty() -> None:
    cleanable = found(None)
    assert (cleanable.first_dirty_offset, cleanable.first_uncleanable_offset) == (0, 30)
    assert (cleanable.clean_bytes, cleanable.cleanable_bytes) == (0, 300)
    assert cleanable.dirty_ratio == 1.0


@pytest.mark.parametrize(
    ("cleaned", "clean", "dirty"), [(10, 100, 200), (15, 100, 200), (20, 200, 100), (30, 300, 0)]
)
def test_what_was_cleaned_counts_as_clean_by_whole_segments(
    cleaned: int, clean: int, dirty: int
) -> None:
    cleanable = found(cleaned)
    assert (cleanable.clean_bytes, cleanable.cleanable_bytes) == (clean, dirty)
    assert not cleanable.checkpoint_is_wrong


@pytest.mark.parametrize("cleaned", [4, 36])
def test_a_checkpoint_outside_of_the_log_is_not_believed(cleaned: int) -> None:
    cleanable = found(cleaned, ends=LogEnds(5, 35, 35))
    assert cleanable.checkpoint_is_wrong
    assert cleanable.first_dirty_offset == 5


@pytest.mark.parametrize(("stable", "limit"), [(35, 30), (30, 30), (29, 20), (20, 20), (3, 0)])
def test_nothing_unstable_is_cleaned(stable: int, limit: int) -> None:
    assert found(None, ends=LogEnds(0, stable, 35)).first_uncleanable_offset == limit


def test_nothing_young_is_cleaned() -> None:
    segments = [FakeSegment(0), FakeSegment(10, max_timestamp=NOW - 5), *SEGMENTS[2:]]
    for lag_ms, limit in ((0, 30), (5, 30), (6, 10), (2 * HOUR_MS, 0)):
        policy = CompactionPolicy(min_compaction_lag_ms=lag_ms)
        cleanable = found(None, policy, segments=segments)
        assert cleanable.first_uncleanable_offset == limit
    assert cleanable.cleanable_bytes == 0


def test_a_log_is_due_when_it_is_dirty_enough() -> None:
    cleanable = found(10)
    assert cleanable.is_due(CompactionPolicy(min_cleanable_dirty_ratio=0.6))
    assert not cleanable.is_due(CompactionPolicy(min_cleanable_dirty_ratio=0.7))


def test_a_log_is_due_when_something_has_waited_too_long() -> None:
    policy = CompactionPolicy(1.0, max_compaction_lag_ms=HOUR_MS)
    assert found(20, policy).delay_ms == HOUR_MS
    assert found(20, policy).is_due(policy)
    assert not found(30, policy).is_due(policy)
    patient = CompactionPolicy(1.0, max_compaction_lag_ms=2 * HOUR_MS)
    assert not found(20, patient).is_due(patient)


def test_an_empty_log_is_never_due() -> None:
    empty = [FakeSegment(0, 0, -1, None)]
    cleanable = found(None, ends=LogEnds(0, 0, 0), segments=empty)
    assert cleanable.dirty_ratio == 0.0
    assert not cleanable.is_due(CompactionPolicy(0.0))


def test_the_dirtiest_log_that_is_due_comes_first() -> None:
    policy = CompactionPolicy(0.3)
    logs = [("a", found(20), policy), ("b", found(10), policy), ("c", found(15), policy)]
    assert choose(logs) == "b"
    never = CompactionPolicy(1.0)
    assert choose([("a", found(20), policy), ("b", found(None), never)]) == "a"
    assert choose([("b", found(None), never)]) is None
