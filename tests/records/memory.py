"""Holding a piece of work to a budget of memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def memory_stays_below(limit: int) -> Iterator[None]:
    """Of what Python allocates."""
    with _measured() as peaks:
        yield
    assert peaks[0] < limit


def least_peak(work: Callable[[], object]) -> int:
    """Return how many bytes Python allocates for a piece of work: the least of three measurements,
    as other threads of the process, such as those of a broker, count in each."""
    found = []
    for _ in range(3):
        with _measured() as peaks:
            work()
        found += peaks
    return min(found)


@contextmanager
def _measured() -> Iterator[list[int]]:
    """Yield a list, which has the peak in bytes after the block."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        yield peaks
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
