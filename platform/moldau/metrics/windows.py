"""Rates, averages and maxima over the last windows of time, as in Kafka's clients.

A rate, an average or a maximum covers some windows of equal length; totals count from the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.runtime import Clock

_NAN: Final = float("nan")


class _Sample:
    """The sums, maxima and number of rows of one window of time."""

    __slots__ = ("began", "count", "largest", "sums")

    def __init__(self, began: float, width: int) -> None:
        self.began = began
        self.count = 0
        self.sums = [0.0] * width
        self.largest = [-float("inf")] * width


class SampledRows:
    """Rows of numbers with their times: statistics of the last windows, and totals."""

    __slots__ = ("_clock", "_sample", "_samples", "_samples_max", "_window_s", "rows", "totals")

    def __init__(self, clock: Clock, window_s: float, samples_max: int, width: int = 1) -> None:
        self._clock = clock
        self._window_s = window_s
        self._samples_max = samples_max
        self._sample = _Sample(-float("inf"), width)
        self._samples: list[_Sample] = []
        self.totals = [0.0] * width
        self.rows = 0

    def add(self, now: float, *values: float) -> None:
        """Add a row of numbers."""
        sample = self._sample
        if now - sample.began >= self._window_s:
            sample = self._sample = _Sample(now, len(self.totals))
            self._samples = [*self._samples, sample][-self._samples_max :]
        self.rows += 1
        sample.count += 1
        sums, largest, totals = sample.sums, sample.largest, self.totals
        for index, value in enumerate(values):
            sums[index] += value
            totals[index] += value
            if value > largest[index]:
                largest[index] = value

    def _recent(self) -> list[_Sample]:
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
