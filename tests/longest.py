"""Tests of what changed begin first, then the longest, one after the other in each worker.

Those of changed files and rooms are the likeliest to fail, and a run that fails is to say so early.

`--dist worksteal` gives each worker a run of neighbours, and one that has finished takes from the
end of another's: in a random order a test of two minutes may begin last, while the other workers
have nothing left to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Final, TypeVar

import pytest

from tests.change import Change
from tests.rooms import FEW_ROOMS, changed_rooms, mirrored

ROOT: Final = Path(__file__).parent.parent
LIST: Final = Path(__file__).with_name("longest.txt")
"""Their names, the longest first: of 40 seconds and more beside others, as `--durations` tells."""

_T = TypeVar("_T")


def first(items: list[pytest.Item], likely: Set[str]) -> None:
    """Put those of likely files and the longest in front of what each worker begins with. All
    workers have one order."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    names = LIST.read_text(encoding="ascii").splitlines()
    front, others = ordered([each.nodeid for each in items], likely, names)
    by_name = {each.nodeid: each for each in items}
    items[:] = [by_name[each] for each in dealt(front, others, workers)]


def ordered(
    tests: Sequence[str], likely: Set[str], longest: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return what begins, in its order, and the others as they came."""
    ranks = {name: rank for rank, name in enumerate(longest)}
    last = len(ranks)
    front = [each for each in tests if _file(each) in likely or each in ranks]
    front.sort(key=lambda each: (_file(each) not in likely, ranks.get(each, last)))
    begins = set(front)
    return front, [each for each in tests if each not in begins]


def _file(test: str) -> str:
    return test.partition("::")[0]


def likely_files(change: Change, tests: Iterable[str]) -> frozenset[str]:
    """Return the files of tests that changed themselves or whose room did. A change of many rooms
    says nothing by those, nor one that is not known."""
    if change is None:
        return frozenset()
    rooms = {path: mirrored(path, lambda folder: (ROOT / folder).is_dir()) for path in tests}
    changed = changed_rooms({each for each in rooms.values() if each is not None}, change)
    few = changed if len(changed) <= FEW_ROOMS else set()
    return frozenset(path for path, room in rooms.items() if path in change or room in few)


def dealt(longest: list[_T], others: list[_T], workers: int) -> list[_T]:
    """Return all in an order of which each worker gets a part of one size, with its share of the
    longest in front."""
    found: list[_T] = []
    left = len(longest) + len(others)
    rest = iter(others)
    for worker in range(workers):
        size = left // (workers - worker)
        left -= size
        own = longest[worker::workers]
        found += [*own, *(each for _, each in zip(range(size - len(own)), rest, strict=False))]
    return [*found, *rest]
