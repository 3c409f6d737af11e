"""The offsets of an answer, and the records that belong to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.share.acknowledgements import AcquiredOffsets

Run = tuple[int, int, int]


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Run], list[list[int]], int]:
    """Acquired runs in order, the offsets of records in parts, and where the answer is damaged."""
    acquired: list[Run] = []
    at = 0
    for skipped, size, count in draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(1, 2)), max_size=6)
    ):
        acquired.append((at + skipped, at + skipped + size - 1, count))
        at += skipped + size
    offsets = [each for each in range(at + 3) if draw(st.booleans())]
    parts, cut = [], 0
    for size in draw(st.lists(st.integers(1, 6), max_size=4)):
        parts.append(offsets[cut : cut + size])
        cut += size
    return acquired, [each for each in [*parts, offsets[cut:]] if each], draw(st.integers(0, at))


def records(offsets: list[int]) -> list[Any]:
    return [SimpleNamespace(offset=each) for each in offsets]


def spread(runs: list[tuple[int, int]]) -> list[int]:
    return sorted(offset for first, last in runs for offset in range(first, last + 1))


@given(answers())
def test_each_acquired_record_is_matched_once_and_the_rest_is_left(
    answer: tuple[list[Run], list[list[int]], int],
) -> None:
    acquired, parts, damaged_from = answer
    counts = {offset: count for first, last, count in acquired for offset in range(first, last + 1)}
    offsets = AcquiredOffsets(acquired)
    matched = [
        (each.offset, count)
        for part in parts
        for own, count in offsets.match(records(part))
        for each in own
    ]
    present = [offset for part in parts for offset in part if offset in counts]
    assert matched == [(offset, counts[offset]) for offset in present]
    missing = sorted(counts.keys() - set(present))
    assert spread(offsets.left()) == missing
    rejected = offsets.cut_off(damaged_from)
    assert spread(rejected) == [each for each in missing if each >= damaged_from]
    assert spread(offsets.left()) == [each for each in missing if each < damaged_from]
