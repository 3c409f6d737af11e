"""What a cluster did over time, as charts: the lines of a picture, and the same as numbers. Pure.

Invariant: the values of a line stand beside the times of its chart; None is a value that is not
known, and a gap in the line. Where readings are further apart than usual there is a gap, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from moldau.deferred import dataclass
from moldau.metrics.ring import EVERY_MS, SeriesValues

WIDTH: Final = 800
HEIGHT: Final = 120
_GAP: Final = 3
"""How many times the usual distance is a gap."""
BYTES: Final = "bytes"


class Panel(NamedTuple):
    """A chart that there may be: its title, unit, and the columns of its lines by their labels."""

    title: str
    unit: str
    lines: Mapping[str, str]


PANELS: Final = (
    Panel("Bytes a second", BYTES, {"in": "bytes_in", "out": "bytes_out"}),
    Panel("Records in, a second", "", {"records": "messages_in"}),
    Panel("Failed a second", "", {"produces": "failed_produces", "fetches": "failed_fetches"}),
    Panel("Lag", "", {"lag": "lag"}),
)


@dataclass(slots=True)
class Past:
    """Values by column and time. `source` says whose they are, `problems` what is missing."""

    source: str
    every_ms: int = EVERY_MS
    at_ms: list[int] = field(default_factory=list)
    columns: dict[str, list[float | None]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Whether the last value of each column is known."""
        return all(each[-1] is not None for each in self.columns.values() if each)


def of_readings(source: str, column: str, readings: Iterable[SeriesValues], every_ms: int) -> Past:
    """Return the first values of a ring's readings."""
    known = list(readings)
    values = [None if math.isnan(each.values[0]) else each.values[0] for each in known]
    return Past(source, every_ms, [each.at_ms for each in known], {column: values})


def added_up(
    source: str, parts: Iterable[tuple[Sequence[str], Sequence[Sequence[float | None]]]]
) -> Past:
    """Return the sums of what several nodes say. Each has columns, and rows of a time and a value a
    column. Readings of about the same time are one: of a node's own the last counts. A sum with an
    unknown part is unknown."""
    sums: dict[str, dict[int, float | None]] = {}
    for columns, rows in parts:
        slots = {round((row[0] or 0) / EVERY_MS) * EVERY_MS: row for row in rows}
        for at, row in slots.items():
            for column, value in zip(columns, row[1:], strict=True):
                line = sums.setdefault(column, {})
                before = line.get(at, 0.0)
                line[at] = None if before is None or value is None else before + value
    times = sorted({at for line in sums.values() for at in line})
    values = {name: [line.get(at) for at in times] for name, line in sums.items()}
    return Past(source, EVERY_MS, times, values)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart; `paths` are its pieces in a box of WIDTH by HEIGHT."""

    label: str
    values: Sequence[float | None]
    paths: list[str]

    @property
    def last(self) -> float | None:
        """Its newest value."""
        return self.values[-1]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one unit."""

    panel: Panel
    at_ms: Sequence[int]
    lines: list[Line]
    most: float

    @property
    def data(self) -> str:
        """The chart as JSON, for a script that draws it: times in seconds, values by label."""
        shown = {
            "unit": self.panel.unit,
            "at": [each / 1000 for each in self.at_ms],
            "lines": [[each.label, each.values] for each in self.lines],
        }
        return json.dumps(shown, separators=(",", ":"))


def charts(past: Past) -> list[Chart]:
    """Return the charts of columns that there are; none if there are less than two readings."""
    if len(past.at_ms) < 2:
        return []
    return [
        _chart(past, panel)
        for panel in PANELS
        if any(column in past.columns for column in panel.lines.values())
    ]


def _chart(past: Past, panel: Panel) -> Chart:
    chosen = {
        label: past.columns[column]
        for label, column in panel.lines.items()
        if column in past.columns
    }
    most = max((each or 0 for values in chosen.values() for each in values), default=0)
    lines = [Line(label, values, _paths(past, values, most)) for label, values in chosen.items()]
    return Chart(panel, past.at_ms, lines, most)


def _paths(past: Past, values: Sequence[float | None], most: float) -> list[str]:
    first, span = past.at_ms[0], max(1, past.at_ms[-1] - past.at_ms[0])
    paths: list[list[str]] = []
    before: int | None = None
    for at_ms, value in zip(past.at_ms, values, strict=True):
        if value is None:
            before = None
            continue
        if before is None or at_ms - before > _GAP * past.every_ms:
            paths.append([])
        x, y = WIDTH * (at_ms - first) / span, HEIGHT - HEIGHT * value / (most or 1)
        paths[-1].append(f"{x:.1f},{y:.1f}")
        before = at_ms
    return [" ".join(each) for each in paths]
