"""Rooms: the folders of the house that folders of tests mirror."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from pathlib import PurePosixPath
from typing import Final

DISTRIBUTIONS: Final = ("platform", "broker", "streams", "connect", "connectors")
OWN_ROOMS: Final = frozenset({"bench", "examples", "release"})
"""Tests of these are in a folder of that name; the others mirror a package of the product."""
FEW_ROOMS: Final = 3
"""A change of more rooms is that of many people: the room of a test says little then."""


def mirrored(path: str, is_folder: Callable[[str], bool]) -> str | None:
    """Return the folder that the folder of the test at `path` mirrors, or the nearest above it;
    None if it mirrors none."""
    parts = PurePosixPath(path).parent.parts[1:]
    if parts and parts[0] in OWN_ROOMS:
        return parts[0]
    for size in range(len(parts), 0, -1):
        for distribution in DISTRIBUTIONS:
            folder = "/".join((distribution, "moldau", *parts[:size]))
            if is_folder(folder):
                return folder
    return None


def changed_rooms(rooms: Set[str], change: Iterable[str]) -> set[str]:
    """Return the rooms in which files changed: each file counts for the innermost."""
    found = (_innermost(rooms, path) for path in change)
    return {each for each in found if each is not None}


def _innermost(rooms: Set[str], path: str) -> str | None:
    above = (each.as_posix() for each in PurePosixPath(path).parents)
    return next((each for each in above if each in rooms), None)
