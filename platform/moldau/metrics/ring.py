"""The values of named series over the last quarter of an hour, in bounded memory. Pure.

    ring = Ring(columns=2)
    ring.add(at_ms, [Block.of([("orders", (12.0, 0.0))])])
    ring.of("orders")        # [SeriesValues(at_ms, (12.0, 0.0))]

Invariants: samples are in the order of time, and none is older than `span_ms`. All samples together
have at most `entries_max` entries of `4 * columns + 8` bytes: with more names, fewer samples stay,
and the oldest go first. A series with nothing but zeros has no entry, and reads as zeros. NaN means
that a value was not known.

Samples stand by time, not by name, because of ten thousand topics most are idle: an idle one costs
nothing. Names of a block are sorted, so a look at one series is a few bisections.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

SPAN_MS: Final = 15 * 60_000
EVERY_MS: Final = 15_000
"""How far samples are apart. They are taken at multiples of it, so that those of several nodes are
of the same time."""
ENTRIES_MAX: Final = 300_000
BLOCK: Final = 1_000
"""Entries of a block: sorting more would hold up an event loop."""


class SeriesValues(NamedTuple):
    """The values of a series at a time."""

    at_ms: int
    values: tuple[float, ...]


class Block(NamedTuple):
    """Some entries of a sample: names in order, and their values one after the other."""

    names: tuple[str, ...]
    values: array[float]

    @classmethod
    def of(cls, entries: Iterable[tuple[str, Sequence[float]]]) -> Block:
        """Sort entries with different names. Those with nothing but zeros are left out."""
        kept = sorted((name, values) for name, values in entries if any(values))
        flat = array("f", (value for _, values in kept for value in values))
        return cls(tuple(name for name, _ in kept), flat)


class Ring:
    """The samples of series that have the same columns."""

    def __init__(
        self, columns: int, span_ms: int = SPAN_MS, entries_max: int = ENTRIES_MAX
    ) -> None:
        self._columns = columns
        self._span_ms = span_ms
        self._entries_max = entries_max
        self._entries = 0
        self._samples: deque[tuple[int, Sequence[Block]]] = deque()

    def add(self, at_ms: int, blocks: Sequence[Block]) -> None:
        """Add a sample, whole. One that is not later than the last one is dropped: the clock was
        set back."""
        if self._samples and at_ms <= self._samples[-1][0]:
            if self._samples[-1][0] - at_ms < self._span_ms:
                return
            self._samples.clear()  # the last one was of a wrong time
            self._entries = 0
        self._samples.append((at_ms, blocks))
        self._entries += _size(blocks)
        while len(self._samples) > 1 and (
            self._samples[0][0] <= at_ms - self._span_ms or self._entries > self._entries_max
        ):
            self._entries -= _size(self._samples.popleft()[1])

    def of(self, name: str) -> list[SeriesValues]:
        """Return the points of a series, oldest first."""
        return [SeriesValues(at_ms, self._values(blocks, name)) for at_ms, blocks in self._samples]

    @property
    def last_ms(self) -> int | None:
        """The time of the last sample."""
        return self._samples[-1][0] if self._samples else None

    def _values(self, blocks: Sequence[Block], name: str) -> tuple[float, ...]:
        for names, values in blocks:
            at = bisect_left(names, name)
            if at < len(names) and names[at] == name:
                return tuple(values[at * self._columns : (at + 1) * self._columns])
        return (0.0,) * self._columns


def _size(blocks: Sequence[Block]) -> int:
    return sum(len(each.names) for each in blocks)
