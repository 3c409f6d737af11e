"""What the pictures of pipelines, plans and consoles share: boxes in columns, arrows between them.
Pure.

A box is one column to the right of the rightmost one that leads to it; what runs in a circle is cut
where it closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

Arrow = tuple[str, str]
"""The keys of two boxes: from, to."""

TIP: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
    'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#52606d;'
    'marker-end:none"/></marker></defs>'
)
"""The end of an arrow in an SVG, for `marker-end:url(#tip)`."""


def cut(text: str, characters: int) -> str:
    """Return a text that fits into a box."""
    return text if len(text) <= characters else f"{text[: characters - 3]}..."


def columns(keys: Iterable[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    """Return the column of each box: the longest path to it that does not go in a circle."""
    leads_to = defaultdict(list)
    for begin, end in arrows:
        leads_to[begin].append(end)
    found = dict.fromkeys(keys, 0)
    order: dict[str, None] = {}
    back: set[Arrow] = set()
    for key in found:
        _visit(key, leads_to, order, back)
    for key in reversed(order):
        for end in leads_to[key]:
            if (key, end) not in back:
                found[end] = max(found[end], found[key] + 1)
    return found


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


def curve(begin: tuple[int, int], end: tuple[int, int], gap: int) -> str:
    """Return the path of an arrow between columns that are `gap` apart."""
    (x, y), (end_x, end_y), bend = begin, end, gap // 2
    return f"M{x} {y}C{x + bend} {y} {end_x - bend} {end_y} {end_x} {end_y}"
