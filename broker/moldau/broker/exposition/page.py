"""The text of one scrape, gathered series by series.

Invariant: the lines of a series stand together under one HELP and one TYPE, whatever the order in
which they were added. It is made in small pieces, because a cluster has 100,000 lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from moldau.broker.exposition.table import Row
from moldau.deferred import deferred_pattern
from moldau.metrics import Metric, MetricKind, Point

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_LABEL: Final = deferred_pattern(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = deferred_pattern(r"\\(.)")
PIECE_LINES: Final = 2_000
_POINTS_AT_ONCE: Final = 100


def escaped(value: str) -> str:
    """Return the value of a label as it is written between its quotes."""
    return value.translate(_ESCAPES)


class Page:
    """The lines of each series."""

    def __init__(self) -> None:
        self._lines: dict[Row, list[str]] = {}

    def adder(self, row: Row) -> Callable[[str], None]:
        """Return the function that adds a whole line of the series, for many lines."""
        return self._lines.setdefault(row, []).append

    def add(self, row: Row, value: float | None, *labels: str) -> None:
        """Add one value. Nothing is added for None: the figure is not known."""
        if value is None:
            return
        pairs = zip(row.labels, labels, strict=False)
        text = ",".join(f'{name}="{escaped(each)}"' for name, each in pairs)
        self.adder(row)(f"{row.name}{{{text}}} {value}" if text else f"{row.name} {value}")

    def pieces(self) -> Iterator[str]:
        """Yield the text in pieces that are small enough for one turn of the event loop, once: a
        series leaves the page with its last piece, since freeing all of them at once takes long."""
        for row in list(self._lines):
            lines = self._lines.pop(row)
            if not lines:
                continue
            yield f"# HELP {row.name} {row.doc}\n# TYPE {row.name} {row.kind}\n"
            for begin in range(0, len(lines), PIECE_LINES):
                yield "\n".join((*lines[begin : begin + PIECE_LINES], ""))

    def metrics(self) -> Iterator[Metric]:
        """Yield the same as values, once, a hundred points at a time."""
        for row in list(self._lines):
            lines = self._lines.pop(row)
            for begin in range(0, len(lines), _POINTS_AT_ONCE):
                points = tuple(map(_point, lines[begin : begin + _POINTS_AT_ONCE]))
                yield Metric(row.name, row.name, row.doc, "", MetricKind(row.kind), points)


def _point(line: str) -> Point:
    named, _, value = line.rpartition(" ")
    labels = tuple((name, _unescaped(text)) for name, text in _LABEL.findall(named))
    return Point(labels, int(value) if value.lstrip("-").isdecimal() else float(value))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
