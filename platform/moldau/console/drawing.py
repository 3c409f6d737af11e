"""Boxes in columns with arrows between them: where each one stands in a picture. Pure.

A box is one column to the right of the rightmost one that leads to it; what runs in a circle is cut
where it closes. In a column, boxes stand in the order of those that lead to them, so that few
arrows cross.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 214
HEIGHT: Final = 64
GAP_X: Final = 52
GAP_Y: Final = 18
MARGIN: Final = 12
CHARACTERS: Final = 25

Arrow = tuple[str, str]


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
        return cut(self.title)

    @property
    def short_under(self) -> str:
        """The second line, cut to the width of the box."""
        return cut(self.under, CHARACTERS + 5)

    @property
    def text(self) -> str:
        """All of it in one line."""
        return ", ".join(filter(None, (self.title, self.under, self.live)))


@dataclass(frozen=True, slots=True)
class Placed:
    """A box, and its upper left corner."""

    box: Box
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    """The boxes, the curves of the arrows, and the size of it all."""

    boxes: tuple[Placed, ...]
    curves: tuple[str, ...]
    width: int
    height: int


def cut(text: str, characters: int = CHARACTERS) -> str:
    """Return a text that fits into a box."""
    return text if len(text) <= characters else f"{text[: characters - 3]}..."


def drawn(boxes: Iterable[Box], arrows: Iterable[Arrow]) -> Picture:
    """Return the picture. Arrows from or to a box that is not there are left out."""
    known = {each.key: each for each in boxes}
    kept = [arrow for arrow in dict.fromkeys(arrows) if known.keys() >= set(arrow)]
    columns = _columns(known, kept)
    rows = _rows(known, kept, columns)
    placed = {
        key: Placed(
            box,
            MARGIN + columns[key] * (WIDTH + GAP_X),
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


def _columns(known: Mapping[str, Box], arrows: Sequence[Arrow]) -> dict[str, int]:
    """Return the column of each box: the longest path to it that does not go in a circle."""
    leads_to = defaultdict(list)
    for begin, end in arrows:
        leads_to[begin].append(end)
    order: dict[str, None] = {}
    back: set[Arrow] = set()
    for key in known:
        _visit(key, leads_to, order, back)
    columns = dict.fromkeys(known, 0)
    for key in reversed(order):
        for end in leads_to[key]:
            if (key, end) not in back:
                columns[end] = max(columns[end], columns[key] + 1)
    return columns


def _visit(
    first: str, leads_to: Mapping[str, list[str]], order: dict[str, None], back: set[Arrow]
) -> None:
    """Add what a box leads to, then the box itself, to `order`; arrows that close a circle to
    `back`. Without recursion: a plan may be long."""
    if first in order:
        return
    path: dict[str, list[str]] = {first: list(leads_to.get(first, ()))}
    while path:
        key, left = next(reversed(path.items()))
        if not left:
            del path[key]
            order[key] = None
            continue
        end = left.pop(0)
        if end in path:
            back.add((key, end))
        elif end not in order:
            path[end] = list(leads_to.get(end, ()))


def _rows(
    known: Mapping[str, Box], arrows: Sequence[Arrow], columns: Mapping[str, int]
) -> dict[str, int]:
    """Return the row of each box in its column."""
    before = defaultdict(list)
    for begin, end in arrows:
        before[end].append(begin)
    by_column = defaultdict(list)
    for key in known:
        by_column[columns[key]].append(key)
    rows: dict[str, int] = {}
    for column in sorted(by_column):

        def wish(key: str) -> float:
            above = [rows[each] for each in before[key] if each in rows]
            return sum(above) / len(above) if above else 0.0

        for row, key in enumerate(sorted(by_column[column], key=wish)):
            rows[key] = row
    return rows


def _curve(begin: Placed, end: Placed) -> str:
    x, y = begin.x + WIDTH, begin.y + HEIGHT // 2
    end_x, end_y = end.x, end.y + HEIGHT // 2
    bend = GAP_X // 2
    return f"M{x} {y}C{x + bend} {y} {end_x - bend} {end_y} {end_x} {end_y}"
