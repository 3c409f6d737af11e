"""The three instruments: counter, gauge and histogram.

They have no locks: one event loop owns them, and a scrape runs on the same loop. Their state is in
public slots on purpose: the most frequent code writes `counter.value += 1` itself, which is the
cheapest way in Python, and everything else calls the method.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


class Counter:
    """A value that only increases; it starts at 0 with the process."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: int | float = 0

    def add(self, amount: int | float = 1) -> None:
        """Add `amount`, never a negative one: for a rate, a decreasing counter means a restart."""
        assert amount >= 0
        self.value += amount


class Gauge:
    """A value that increases and decreases."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: int | float = 0

    def set(self, value: int | float) -> None:
        self.value = value

    def add(self, amount: int | float = 1) -> None:
        self.value += amount


class ReadGauge:
    """A gauge that is computed when it is exported, from a value that exists elsewhere."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], int | float]) -> None:
        self.read = read

    @property
    def value(self) -> int | float:
        return self.read()


class Histogram:
    """Counts values by size. Bucket i has the values above bounds[i - 1] and up to bounds[i]; the
    last bucket has no bound and counts the rest."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: int | float = 0

    def observe(self, value: int | float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)


# Seconds, from 100 us to 10 s: the range from a request answered from memory to a timeout.
SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
# Bytes, from 64 to 64 Mi by factors of 4.
BYTES = tuple(float(64 * 4**power) for power in range(11))
