"""Numbers of the last windows of time: rates, averages and maxima, as Kafka's clients have them.

A rate, an average or a maximum looks back over some windows of equal length; totals count from the
start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.runtime import Clock

_NAN: Final = float("nan")


class _Sample:
    """A window of time."""

    __slots__ = ("began", "count", "largest", "sums")

    def __init__(self, began: float, width: int) -> None:
        self.began = began
        self.count = 0
        self.sums = [0.0] * width
        self.largest = [-float("inf")] * width


class Sampled:
    """Rows of numbers and when they came: what the last windows had, and the totals."""

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
        """One more row."""
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
        """The sum of a column, a second."""
        return self._a_second(sum(each.sums[index] for each in self._recent()))

    def row_rate(self) -> float:
        """How many rows a second."""
        return self._a_second(sum(each.count for each in self._recent()))

    def _a_second(self, amount: float) -> float:
        """Windows that are not there yet count as empty ones, so that a first value is no burst."""
        recent = self._recent()
        if not recent:
            return 0.0
        elapsed = self._clock.monotonic() - recent[0].began
        missing = max(0, self._samples_max - 1 - int(elapsed / self._window_s))
        return amount / (elapsed + missing * self._window_s or self._window_s)

    def sum_and_count(self, index: int) -> tuple[float, int]:
        """Of a column, lately."""
        recent = self._recent()
        return sum(each.sums[index] for each in recent), sum(each.count for each in recent)

    def largest(self, index: int) -> float:
        """Of a column, lately; NaN while there is none, as in Kafka."""
        return max((each.largest[index] for each in self._recent()), default=_NAN)


def average(among: Iterable[Sampled], index: int) -> float:
    """Of a column, lately, over all of these; NaN while there is none, as in Kafka."""
    found = [each.sum_and_count(index) for each in among]
    count = sum(each[1] for each in found)
    return sum(each[0] for each in found) / count if count else _NAN


def largest(among: Iterable[Sampled], index: int) -> float:
    """Of a column, lately, over all of these."""
    found = (each.largest(index) for each in among)
    return max((each for each in found if each == each), default=_NAN)
