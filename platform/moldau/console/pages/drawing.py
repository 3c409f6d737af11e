"""Boxes in columns with arrows between them: where each one stands in a picture. Pure.

In a column, boxes stand in the order of those that lead to them, so that few arrows cross.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from moldau.deferred import dataclass
from moldau.diagrams import Arrow, columns, curve, cut

WIDTH: Final = 196
"""Five columns fit a page: source, topic, app, topic, sink."""
HEIGHT: Final = 64
GAP_X: Final = 38
GAP_Y: Final = 18
MARGIN: Final = 12
CHARACTERS: Final = 23


@dataclass(frozen=True, slots=True)
class Box:
    """A box: `kind` is its look, `live` the line with numbers."""

    key: str
    kind: str
    title: str
    under: str = ""
    live: str = ""
    is_bad: bool = False

    @property
    def short(self) -> str:
        """The title, cut to the width of the box."""
        return cut(self.title, CHARACTERS)

    @property
    def short_under(self) -> str:
        """The second line, cut to the width of the box."""
        return cut(self.under, CHARACTERS + 5)

    @property
    def text(self) -> str:
        """All of it in one line."""
        return ", ".join(filter(None, (self.title, self.under, self.live)))


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box, and its upper left corner."""

    box: Box
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    """The boxes, the curves of the arrows, and the size of it all."""

    boxes: tuple[PlacedBox, ...]
    curves: tuple[str, ...]
    width: int
    height: int


def drawn(boxes: Iterable[Box], arrows: Iterable[Arrow]) -> Picture:
    """Return the picture. Arrows from or to a box that is not there are left out."""
    known = {each.key: each for each in boxes}
    kept = [arrow for arrow in dict.fromkeys(arrows) if known.keys() >= set(arrow)]
    places = columns(known, kept)
    rows = _rows(known, kept, places)
    placed = {
        key: PlacedBox(
            box,
            MARGIN + places[key] * (WIDTH + GAP_X),
            MARGIN + rows[key] * (HEIGHT + GAP_Y),
        )
        for key, box in known.items()
    }
    return Picture(
        tuple(placed.values()),
        tuple(_curve(placed[begin], placed[end]) for begin, end in kept),
        max((each.x for each in placed.values()), default=0) + WIDTH + MARGIN,
        max((each.y for each in placed.values()), default=0) + HEIGHT + MARGIN,
    )


def _rows(
    known: Mapping[str, Box], arrows: Sequence[Arrow], places: Mapping[str, int]
) -> dict[str, int]:
    """Return the row of each box in its column."""
    before = defaultdict(list)
    for begin, end in arrows:
        before[end].append(begin)
    by_column = defaultdict(list)
    for key in known:
        by_column[places[key]].append(key)
    rows: dict[str, int] = {}
    for column in sorted(by_column):

        def wish(key: str) -> float:
            above = [rows[each] for each in before[key] if each in rows]
            return sum(above) / len(above) if above else 0.0

        for row, key in enumerate(sorted(by_column[column], key=wish)):
            rows[key] = row
    return rows


def _curve(begin: PlacedBox, end: PlacedBox) -> str:
    middle = HEIGHT // 2
    return curve((begin.x + WIDTH, begin.y + middle), (end.x, end.y + middle), GAP_X)
