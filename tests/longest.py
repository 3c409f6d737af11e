"""The longest tests begin first, one after the other in each worker.

`--dist worksteal` gives each worker a run of neighbours, and one that has finished takes from the
end of another's: in a random order a test of two minutes may begin last, while the other workers
have nothing left to do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeVar

import pytest

LIST: Final = Path(__file__).with_name("longest.txt")
"""Their names, the longest first: of 40 seconds and more beside others, as `--durations` tells."""

_T = TypeVar("_T")


def first(items: list[pytest.Item]) -> None:
    """Put the longest in front of what each worker begins with. All workers have one order."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ranks = {name: rank for rank, name in enumerate(LIST.read_text(encoding="ascii").splitlines())}
    longest = sorted(
        (each for each in items if each.nodeid in ranks), key=lambda each: ranks[each.nodeid]
    )
    others = [each for each in items if each.nodeid not in ranks]
    items[:] = dealt(longest, others, workers)


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
