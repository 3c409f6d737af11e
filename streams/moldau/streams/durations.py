"""Durations as users write them: "90s", "5m", a number of milliseconds, a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta

from moldau.streams.problems import TopologyError

Duration = str | int | timedelta

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*")


def milliseconds(duration: Duration, what: str) -> int:
    """Return `duration` in whole milliseconds.

    Raise TopologyError if it is not a duration; `what` names it in the error.
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    if isinstance(duration, int) and not isinstance(duration, bool):
        return duration
    text = duration.strip() if isinstance(duration, str) else ""
    sign = -1 if text.startswith("-") else 1
    rest = text.removeprefix("-")
    total, end = 0.0, 0
    while end < len(rest) and (part := _PART.match(rest, end)):
        total += float(part[1]) * UNITS_MS[part[2]]
        end = part.end()
    if not rest or end != len(rest):
        raise TopologyError(
            f"{what}: {duration!r} is no duration; "
            'write "500ms", "5s", "1m", "2h", "1d", milliseconds as an int, or a timedelta'
        )
    return sign * round(total)


def in_words(duration_ms: int) -> str:
    """Return the shortest exact text of a duration: 90000 -> "90s"."""
    if duration_ms == 0:
        return "0ms"
    for unit, size in reversed(UNITS_MS.items()):
        if duration_ms % size == 0:
            return f"{duration_ms // size}{unit}"
    raise AssertionError("every whole number is a multiple of 1 ms")
