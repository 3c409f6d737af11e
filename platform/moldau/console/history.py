"""The lag of groups over time, and the lines that a page draws of it. Pure.

Invariant: at most GROUPS groups have a history, of at most POINTS points that are at least EVERY_MS
apart; a group that is gone has none. It grows only while the console is looked at, so a line has
gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

POINTS: Final = 360
GROUPS: Final = 5_000
EVERY_MS: Final = 5_000
GAP_MS: Final = 60_000
WIDTH: Final = 800
HEIGHT: Final = 120


class Point(NamedTuple):
    """The lag of a group at a time."""

    at_ms: int
    lag: int


class LagHistory:
    """The histories of the groups of one cluster."""

    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    def add(self, at_ms: int, lags: Mapping[str, int]) -> None:
        """Add a point to each group. `lags` has all groups that exist."""
        for name in self._points.keys() - lags.keys():
            del self._points[name]
        for name, lag in lags.items():
            known = self._points.get(name)
            if known is None:
                if len(self._points) < GROUPS:
                    self._points[name] = deque([Point(at_ms, lag)], maxlen=POINTS)
            elif at_ms - known[-1].at_ms >= EVERY_MS:
                known.append(Point(at_ms, lag))

    def of(self, group: str) -> list[Point]:
        """Return the points of a group, oldest first."""
        return list(self._points.get(group, ()))


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines in a box of WIDTH by HEIGHT, and what its edges mean."""

    lines: list[str]
    first: Point
    last: Point
    most: int


def chart(points: Iterable[Point]) -> Chart | None:
    """Return the chart of a history; None if it has less than two points."""
    known = list(points)
    if len(known) < 2:
        return None
    first, last = known[0], known[-1]
    most = max(each.lag for each in known)
    span = max(1, last.at_ms - first.at_ms)
    lines: list[list[str]] = []
    before: Point | None = None
    for each in known:
        x = WIDTH * (each.at_ms - first.at_ms) / span
        y = HEIGHT - HEIGHT * each.lag / max(1, most)
        if before is None or each.at_ms - before.at_ms > GAP_MS:
            lines.append([])
        lines[-1].append(f"{x:.1f},{y:.1f}")
        before = each
    return Chart([" ".join(each) for each in lines], first, last, most)
