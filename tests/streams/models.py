"""Brute-force models: what an operator must give, in plain Python, one record at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Rows = list[tuple[Any, Any, int]]


def counts(records: Iterable[tuple[Any, Any, int]]) -> Rows:
    """Updates of a count by key: (key, count, time)."""
    state: dict[Any, tuple[int, int]] = {}
    found = []
    for key, value, time in records:
        if key is None or value is None:
            continue
        count, latest = state.get(key, (0, -1))
        state[key] = (count + 1, max(latest, time))
        found.append((key, *state[key]))
    return found


def starts(time: int, size: int, advance: int) -> list[int]:
    """The windows [start, start + size) that hold a time."""
    return [start for start in range(0, time + 1, advance) if time < start + size]


def windowed_counts(
    records: Iterable[tuple[Any, Any, int]], size: int, advance: int, grace: int
) -> tuple[Rows, Rows, Rows]:
    """Updates ((key, start), count, time); results on close, in order; records that came late."""
    state: dict[tuple[int, Any], tuple[int, int]] = {}
    updates: Rows = []
    closed: Rows = []
    late: Rows = []
    clock = -1
    for key, value, time in records:
        if key is None:
            continue
        clock = max(clock, time)
        missed = False
        for start in starts(time, size, advance):
            if start + size + grace <= clock:
                missed = True
                continue
            count, latest = state.get((start, key), (0, -1))
            state[start, key] = (count + 1, max(latest, time))
            updates.append(((key, start), *state[start, key]))
        if missed:
            late.append((key, value, time))
        for start, name in sorted(state):
            if start + size + grace <= clock:
                closed.append(((name, start), *state.pop((start, name))))
    return updates, closed, late
