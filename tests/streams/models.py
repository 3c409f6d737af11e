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


class Joined:
    """A join of two streams in windows: everything is kept, and searched for each record."""

    def __init__(self, kind: str, before: int, after: int, grace: int) -> None:
        self.kind = kind
        self.spans = {"left": (before, after), "right": (after, before)}
        self.grace = grace
        self.retention = max(before + after + grace, 1)  # records of one time always meet
        self.clock = -1
        self.stores: dict[str, Rows] = {"left": [], "right": []}
        self.clocks = {"left": -1, "right": -1}
        self.waiting: list[tuple[int, int, Any, Any, str]] = []
        self.found: Rows = []

    def pads(self, side: str) -> bool:
        return self.kind == "outer" or (self.kind == "left" and side == "left")

    def emit(self, side: str, key: Any, values: tuple[Any, Any], time: int) -> None:
        self.found.append((key, list(values if side == "left" else values[::-1]), time))

    def add(self, side: str, key: Any, value: Any, time: int) -> None:
        self.clock = max(self.clock, time)
        if value is None:
            return
        if key is None:
            if self.pads(side):
                self.emit(side, None, (value, None), time)
            return
        self.clocks[side] = max(self.clocks[side], time)
        if time > self.clocks[side] - self.retention:
            self.stores[side].append((key, value, time))
        if time == self.clock:
            self.emit_over()
        self.meet(side, key, value, time)

    def emit_over(self) -> None:
        for waiting in sorted(self.waiting, key=lambda each: each[:3]):
            time, _, key, value, side = waiting
            if time + self.spans[side][1] + self.grace < self.clock:
                self.waiting.remove(waiting)
                self.emit(side, key, (value, None), time)

    def meet(self, side: str, key: Any, value: Any, time: int) -> None:
        other = "right" if side == "left" else "left"
        before, after = self.spans[side]
        met = [
            row
            for row in sorted(self.stores[other], key=lambda row: row[2])
            if row[0] == key
            and max(0, time - before) <= row[2] <= max(0, time + after)
            and row[2] > self.clocks[other] - self.retention
        ]
        for _, partner, at in met:
            self.waiting = [
                each for each in self.waiting if (each[0], each[2], each[4]) != (at, key, other)
            ]
            self.emit(side, key, (value, partner), max(time, at))
        if not met and self.pads(side):
            if max(0, time + after) < self.clock:
                self.emit(side, key, (value, None), time)
            else:
                self.waiting.append((time, 1 if side == "left" else 0, key, value, side))


class Sessions:
    """Counts in sessions: all sessions of all keys in one list."""

    def __init__(self, gap: int, grace: int) -> None:
        self.gap = gap
        self.open = gap + grace
        self.clock = -1
        self.end_put = -1
        # (end, start, key) -> count
        self.sessions: dict[tuple[int, int, Any], int] = {}
        self.updates: Rows = []
        self.closed: Rows = []
        self.late: Rows = []
        self.emitted_below = -1

    def add(self, key: Any, value: Any, time: int) -> None:
        if key is None:
            return
        self.clock = max(self.clock, time)
        met = [
            span
            for span in sorted(self.sessions, key=lambda span: span[:2])
            if span[2] == key
            and span[0] >= time - self.gap
            and span[1] <= time + self.gap
            and span[0] > self.end_put - self.open
        ]
        end = max([time, *(span[0] for span in met)])
        start = min([time, *(span[1] for span in met)])
        if end < self.clock - self.open:
            self.late.append((key, value, time))
        else:
            count = 1 + sum(self.sessions[span] for span in met)
            if (start, end) != (time, time):
                for span in met:
                    del self.sessions[span]
                    self.updates.append(((key, span[1], span[0]), None, span[0]))
            self.sessions[end, start, key] = count
            self.end_put = max(self.end_put, end)
            self.updates.append(((key, start, end), count, end))
        below = self.clock - self.open
        for span in sorted(self.sessions):
            if self.emitted_below <= span[0] < below:
                self.closed.append(((span[2], span[1], span[0]), self.sessions[span], span[0]))
        self.emitted_below = max(self.emitted_below, below)


def sliding(
    records: Iterable[tuple[Any, Any, int]], difference: int
) -> dict[tuple[Any, int], list[Any]]:
    """What each sliding window holds at last, where no record is late: by the definition."""
    kept = [row for row in records if row[0] is not None and row[1] is not None]
    found: dict[tuple[Any, int], list[Any]] = {}
    for key, _, time in kept:
        for start in (max(0, time - difference), time + 1):
            held = [
                value
                for other, value, at in kept
                if other == key and start <= at <= start + difference
            ]
            if held:
                found[key, start] = held
    return found
