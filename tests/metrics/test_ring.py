"""A ring keeps the last quarter of an hour of many series in bounded memory."""

from __future__ import annotations

import math
from sys import getsizeof

from hypothesis import given
from hypothesis import strategies as some

from moldau.metrics.ring import BLOCK, ENTRIES_MAX, EVERY_MS, SPAN_MS, Block, Ring, SeriesValues

TOPICS = 10_000
SAMPLES = SPAN_MS // EVERY_MS


def test_a_series_is_read_by_its_name_and_reads_as_zero_where_it_has_no_entry() -> None:
    ring = Ring(columns=2)
    ring.add(1, [Block.of([("b", (1, 2)), ("a", (3, math.nan))]), Block.of([("c", (5, 6))])])
    ring.add(2, [Block.of([("b", (0, 0))])])
    assert ring.of("b") == [SeriesValues(1, (1, 2)), SeriesValues(2, (0, 0))]
    assert ring.of("c") == [SeriesValues(1, (5, 6)), SeriesValues(2, (0, 0))]
    assert math.isnan(ring.of("a")[0].values[1])
    assert ring.of("none") == [SeriesValues(1, (0, 0)), SeriesValues(2, (0, 0))]


def test_samples_are_in_the_order_of_time_also_if_the_clock_is_set() -> None:
    ring = Ring(columns=1)
    for at_ms in (SPAN_MS * 3, SPAN_MS * 3 - 1, SPAN_MS * 3, SPAN_MS * 3 + 1):
        ring.add(at_ms, [])
    assert [each.at_ms for each in ring.of("a")] == [SPAN_MS * 3, SPAN_MS * 3 + 1]
    ring.add(SPAN_MS, [])
    assert [each.at_ms for each in ring.of("a")] == [SPAN_MS]


@given(some.lists(some.tuples(some.integers(0, 400), some.integers(0, 30)), max_size=60))
def test_neither_the_span_nor_the_entries_pass_their_bounds(steps: list[tuple[int, int]]) -> None:
    ring, at_ms = Ring(columns=1, span_ms=1_000, entries_max=100), 0
    held: list[tuple[int, int]] = []
    for pause, count in steps:
        at_ms += pause + 1
        ring.add(at_ms, [Block.of((str(each), (each + 1,)) for each in range(count))])
        held = [(then, size) for then, size in [*held, (at_ms, count)] if then > at_ms - 1_000]
        while sum(size for _, size in held) > 100:
            del held[0]
        assert [each.at_ms for each in ring.of("0")] == [then for then, _ in held]


def test_ten_thousand_topics_cost_ten_megabytes_if_all_are_busy_and_nothing_if_idle() -> None:
    names = [f"a-topic-of-some-length-{number:05}" for number in range(TOPICS)]

    def filled(busy: int) -> tuple[Ring, int]:
        ring, size = Ring(columns=6), 0
        entries = [(name, (1.5, 2, 3, 0, 0, 9)) for name in names[:busy]]
        for number in range(SAMPLES):
            blocks = [
                Block.of(entries[begin : begin + BLOCK]) for begin in range(0, len(entries), BLOCK)
            ]
            ring.add(number * EVERY_MS, blocks)
            size += sum(getsizeof(each.names) + getsizeof(each.values) for each in blocks)
        return ring, size // SAMPLES * len(ring.of(names[0]))

    ring, size = filled(TOPICS)
    assert len(ring.of(names[0])) == ENTRIES_MAX // TOPICS
    assert 9_000_000 < size < 10_000_000
    ring, size = filled(100)
    assert len(ring.of(names[0])) == SAMPLES
    assert size < 300_000
