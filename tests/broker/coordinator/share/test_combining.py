"""Runs of offsets, against a table with an entry for each offset."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.share.combining import NO_OFFSET, Run, combined

offsets = st.integers(0, 30)
runs = st.builds(
    lambda first, length, state, count: Run(first, first + length, state, count),
    *(offsets, st.integers(0, 9), st.sampled_from((0, 2, 4)), st.integers(1, 3)),
)


@given(st.lists(runs, max_size=6), st.lists(runs, max_size=6), st.integers(-1, 35))
def test_the_strongest_run_counts_at_each_offset(
    before: list[Run], added: list[Run], start: int
) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for run in (*before, *added):
        for offset in range(run.first, run.last + 1):
            if offset >= start:
                known = expected.get(offset, (-1, -1))
                expected[offset] = max(known, (run.deliveries, run.state))
    found = combined(tuple(before), added, start)
    assert {
        offset: (run.deliveries, run.state)
        for run in found
        for offset in range(run.first, run.last + 1)
    } == expected
    for left, right in pairwise(found):
        assert left.last < right.first
        assert left.last + 1 < right.first or left[2:] != right[2:], "they say the same"


def test_a_run_is_cut_at_the_start_offset() -> None:
    assert combined((Run(0, 9, 2, 1),), (), 4) == (Run(4, 9, 2, 1),)
    assert combined((Run(0, 3, 2, 1),), (), 4) == ()
    assert combined((Run(0, 9, 2, 1),), (), NO_OFFSET) == (Run(0, 9, 2, 1),)
