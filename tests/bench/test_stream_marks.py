"""The marks of the bench `streams`: what counts is what was done while all workers ran."""

from __future__ import annotations

import pytest

from bench.stream_marks import Marks, mark

STEP = 100


def came(*arrivals: tuple[float, int, int], last: int = 10, partitions: int = 2) -> Marks:
    """Marks that came: time, partition, number."""
    marks = Marks(partitions, last)
    for time_s, partition, number in arrivals:
        marks.take([b"other", mark(partition, number), None], time_s)
    return marks


def test_rates_of_partitions_add_up() -> None:
    marks = came((1, 0, 0), (1, 1, 0), (3, 0, 2), (3, 1, 4))

    assert marks.rate(0, STEP) == pytest.approx(100 + 200)


def test_what_came_before_all_were_ready_does_not_count() -> None:
    marks = came((1, 0, 0), (1, 1, 0), (5, 0, 8), (5, 1, 1), (6, 0, 9), (6, 1, 2))

    assert marks.rate(4, STEP) == pytest.approx(200)


def test_nothing_counts_before_the_other_partition_has_begun() -> None:
    marks = came((1, 0, 0), (2, 0, 5), (4, 1, 0), (5, 0, 6), (6, 0, 7), (6, 1, 2))

    assert marks.rate(0, STEP) == pytest.approx(100 + 100)


def test_nothing_counts_after_a_partition_is_done() -> None:
    marks = came((1, 0, 0), (1, 1, 0), (2, 0, 10), (2, 1, 1), (3, 1, 9))

    assert marks.rate(0, STEP) == pytest.approx(1000 + 100)


@pytest.mark.parametrize("arrivals", [[], [(1, 0, 0), (2, 0, 9)], [(1, 0, 0), (1, 1, 0)]])
def test_too_few_marks_give_no_rate(arrivals: list[tuple[float, int, int]]) -> None:
    assert came(*arrivals).rate(0, STEP) is None


def test_all_is_done_when_the_last_mark_of_each_partition_has_come() -> None:
    assert not came((1, 0, 10), (1, 1, 9)).is_done
    assert came((1, 0, 10), (1, 1, 10)).is_done


def test_a_mark_that_comes_again_does_not_turn_back() -> None:
    marks = came((1, 0, 0), (2, 0, 4), (3, 0, 2), (5, 0, 8), partitions=1)

    assert marks.rate(0, STEP) == pytest.approx(200)
