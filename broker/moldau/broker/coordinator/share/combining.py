"""Join runs of offsets that say how often records were delivered and what became of them.

Where runs overlap, the one that was delivered more often counts, and of two that were delivered
equally often the one with the higher state, then the one that rests longer: deliveries only grow,
and a final state is higher than AVAILABLE. So the result does not depend on the order in which runs
are added. It is equal to Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

NO_OFFSET: Final = -1
AT_ONCE: Final = -1


class Run(NamedTuple):
    """Offsets in one state, delivered equally often. Both ends are included, as in the log."""

    first: int
    last: int
    state: int
    deliveries: int
    not_before_ms: int = AT_ONCE
    """The wall clock time before which they are not delivered."""


Runs = tuple[Run, ...]


def combined(before: Runs, added: Iterable[Run], start_offset: int) -> Runs:
    """Return the runs of both, sorted and without overlap. What lies before `start_offset` is left
    out; NO_OFFSET keeps everything. Neighbours that say the same become one run."""
    runs = sorted(_from(start_offset, (*before, *added)))
    if not _has_work(runs):
        return tuple(runs)
    return _swept(runs)


def _from(start_offset: int, runs: Iterable[Run]) -> Iterable[Run]:
    for run in runs:
        if run.first >= start_offset:
            yield run
        elif run.last >= start_offset:
            yield run._replace(first=start_offset)


def _has_work(runs: list[Run]) -> bool:
    """Whether two neighbours overlap, or can become one."""
    for left, right in pairwise(runs):
        if right.first <= left.last:
            return True
        if right.first == left.last + 1 and right[2:] == left[2:]:
            return True
    return False


def _swept(runs: list[Run]) -> Runs:
    """Walk over all ends of the runs. Between two of them the strongest open run counts."""
    marks = sorted({run.first for run in runs} | {run.last + 1 for run in runs})
    found: list[Run] = []
    opened: list[tuple[int, int, int, int]] = []
    at = 0
    for here, after in pairwise(marks):
        while at < len(runs) and runs[at].first <= here:
            run = runs[at]
            heappush(opened, (-run.deliveries, -run.state, -run.not_before_ms, run.last))
            at += 1
        while opened and opened[0][3] < here:
            heappop(opened)
        if not opened:
            continue
        run = Run(here, after - 1, -opened[0][1], -opened[0][0], -opened[0][2])
        before = found[-1] if found else None
        if before is not None and before.last + 1 == here and before[2:] == run[2:]:
            found[-1] = before._replace(last=after - 1)
        else:
            found.append(run)
    return tuple(found)
