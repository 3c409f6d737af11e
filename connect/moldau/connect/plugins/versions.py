"""Versions of plugins, and the ranges of them that a config may ask for. No IO.

A range is written as in Maven, which Kafka takes: `1.2` and `[1.2]` mean that version, `[1.2,2.0)`
from it to before another one, `(,1.0],[1.2,)` one of several; `latest` means any.
"""

from __future__ import annotations

import re
from typing import Final

ANY: Final = "latest"
_RANGE: Final = re.compile(r"\s*([\[(])([^\[\]()]*)([\])])\s*(?:,|$)")
_PART: Final = re.compile(r"\d+|[a-z]+")
_RELEASE: Final = 5
_BEFORE_RELEASE: Final = {
    "alpha": 0, "a": 0, "beta": 1, "b": 1, "milestone": 2, "m": 2, "rc": 3, "cr": 3, "dev": 4,
    "snapshot": 4, "final": _RELEASE, "ga": _RELEASE, "release": _RELEASE, "sp": _RELEASE + 1,
}  # fmt: skip


def admits(wanted: str, version: str) -> bool:
    """Whether `version` is one that `wanted` asks for. Raise ValueError if `wanted` is no range."""
    wanted = wanted.strip()
    if wanted == ANY:
        return True
    if not wanted.startswith(("[", "(")):
        return compared(wanted, version) == 0
    position, found = 0, False
    while position < len(wanted):
        match = _RANGE.match(wanted, position)
        if match is None:
            raise ValueError(f"{wanted!r} is no range of versions")
        found = _is_within(version, match[1], match[2], match[3], wanted) or found
        position = match.end()
    return found


def _is_within(version: str, opening: str, bounds: str, closing: str, wanted: str) -> bool:
    low, comma, high = (each.strip() for each in bounds.partition(","))
    if not comma:
        if not low or opening + closing != "[]":
            raise ValueError(f"{wanted!r} is no range of versions: write one version as [1.0]")
        return compared(version, low) == 0
    if "," in high or (low and high and compared(low, high) > 0):
        raise ValueError(f"{wanted!r} is no range of versions: its bounds are in no order")
    is_above = not low or compared(version, low) > (0 if opening == "(" else -1)
    is_below = not high or compared(version, high) < (0 if closing == ")" else 1)
    return is_above and is_below


def compared(left: str, right: str) -> int:
    """Return -1, 0 or 1: numbers count as numbers, `1.0` is `1`, and `1.0-rc1` is before `1.0`."""
    lefts, rights = _parts(left), _parts(right)
    for index in range(max(len(lefts), len(rights))):
        one = lefts[index] if index < len(lefts) else _filled(rights[index])
        other = rights[index] if index < len(rights) else _filled(lefts[index])
        if one != other:
            return -1 if one < other else 1
    return 0


def _parts(version: str) -> list[tuple[int, int, str]]:
    """Return its parts in their order: words before a release, words after it, numbers."""
    return [
        (2, int(part), "") if part.isdigit() else _word(part)
        for part in _PART.findall(version.lower())
    ]


def _word(part: str) -> tuple[int, int, str]:
    rank = _BEFORE_RELEASE.get(part, _RELEASE + 2)
    return (0, rank, "") if rank < _RELEASE else (1, rank, "" if rank < _RELEASE + 2 else part)


def _filled(other: tuple[int, int, str]) -> tuple[int, int, str]:
    """Return what stands for a part that is not there, beside the other version's part."""
    return (2, 0, "") if other[0] == 2 else (1, _RELEASE, "")
