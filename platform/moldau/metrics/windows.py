"""Rates, averages and maxima over the last windows of time, as in Kafka's clients.

A rate, an average or a maximum covers some windows of equal length; totals count from the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.runtime import Clock

_NAN: Final = float("nan")


_ROWS_APART_MAX: Final = 64


class _Sample:
    """The sums, maxima and number of rows of one window of time."""

    __slots__ = ("began", "count", "largest", "sums")

    def __init__(self, began: float, width: int) -> None:
        self.began = began
        self.count = 0
        self.sums = [0.0] * width
        self.largest = [-float("inf")] * width


class SampledRows:
    """Rows of numbers with their times: statistics of the last windows, and totals.

    A row is put beside the last ones, and many are added up at a time: of each request that has
    one, adding it alone would be one of the dearest parts.
    """

    __slots__ = (
        *("_apart", "_clock", "_sample", "_samples", "_samples_max", "_totals", "_window_s"),
        "_rows",
    )

    def __init__(self, clock: Clock, window_s: float, samples_max: int, width: int = 1) -> None:
        self._clock = clock
        self._window_s = window_s
        self._samples_max = samples_max
        self._sample = _Sample(-float("inf"), width)
        self._samples: list[_Sample] = []
        self._totals = [0.0] * width
        self._rows = 0
        self._apart: list[tuple[float, ...]] = []
        """Rows of the last sample that are not added up yet."""

    def add(self, now: float, *values: float) -> None:
        """Add a row of numbers."""
        apart = self._apart
        if now - self._sample.began >= self._window_s:
            self._add_up()
            self._sample = _Sample(now, len(self._totals))
            self._samples = [*self._samples, self._sample][-self._samples_max :]
        elif len(apart) >= _ROWS_APART_MAX:
            self._add_up()
        apart.append(values)

    def _add_up(self) -> None:
        apart, sample = self._apart, self._sample
        if not apart:
            return
        self._rows += len(apart)
        sample.count += len(apart)
        for index, column in enumerate(zip(*apart, strict=True)):
            added = sum(column)
            sample.sums[index] += added
            self._totals[index] += added
            sample.largest[index] = max(sample.largest[index], *column)
        apart.clear()

    @property
    def rows(self) -> int:
        """The number of rows."""
        self._add_up()
        return self._rows

    @property
    def totals(self) -> list[float]:
        """The sum of each column."""
        self._add_up()
        return self._totals

    def _recent(self) -> list[_Sample]:
        self._add_up()
        oldest = self._clock.monotonic() - self._samples_max * self._window_s
        return [each for each in self._samples if each.began > oldest]

    def rate(self, index: int = 0) -> float:
        """Return the sum of a column per second, over the last windows."""
        return self._a_second(sum(each.sums[index] for each in self._recent()))

    def row_rate(self) -> float:
        """Return the number of rows per second, over the last windows."""
        return self._a_second(sum(each.count for each in self._recent()))

    def _a_second(self, amount: float) -> float:
        """Return an amount per second. Windows before the start count as empty, so that a first
        value does not look like a burst."""
        recent = self._recent()
        if not recent:
            return 0.0
        elapsed = self._clock.monotonic() - recent[0].began
        missing = max(0, self._samples_max - 1 - int(elapsed / self._window_s))
        return amount / (elapsed + missing * self._window_s or self._window_s)

    def sum_and_count(self, index: int) -> tuple[float, int]:
        """Return the sum of a column and the number of its rows, over the last windows."""
        recent = self._recent()
        return sum(each.sums[index] for each in recent), sum(each.count for each in recent)

    def largest(self, index: int) -> float:
        """Return the largest value of a column lately; NaN without values, as in Kafka."""
        return max((each.largest[index] for each in self._recent()), default=_NAN)


def average(among: Iterable[SampledRows], index: int) -> float:
    """Return the average of a column lately, over all samples; NaN without values, as in Kafka."""
    found = [each.sum_and_count(index) for each in among]
    count = sum(each[1] for each in found)
    return sum(each[0] for each in found) / count if count else _NAN


def largest(among: Iterable[SampledRows], index: int) -> float:
    """Return the largest value of a column lately, over all samples; NaN without values."""
    found = (each.largest(index) for each in among)
    return max((each for each in found if each == each), default=_NAN)
