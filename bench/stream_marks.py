"""Marks in a load: how fast an app is while all its workers run.

At regular distances a partition has a mark, a record with a key of its own. An app passes marks on
in their order, so that the arrival of one shows how much of a partition is done.

Invariant: a rate counts only the work between two instants at which all workers were working on all
partitions. It contains neither the start nor a rebalance nor the end of a partition that is done
early, however long they take.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_PREFIX = b"mark-"


def mark(partition: int, number: int) -> bytes:
    """Return the key of a mark."""
    return b"%b%d-%d" % (_PREFIX, partition, number)


class Arrival(NamedTuple):
    """The time when a mark came: everything before it is done."""

    time_s: float
    number: int


class Marks:
    """The marks that have come out of an app."""

    def __init__(self, partitions: int, last: int) -> None:
        """`last` is the number of the last mark of each partition."""
        self._last = last
        self._arrivals: list[list[Arrival]] = [[] for _ in range(partitions)]

    @property
    def is_done(self) -> bool:
        return all(each and each[-1].number >= self._last for each in self._arrivals)

    def take(self, keys: Iterable[bytes | None], time_s: float) -> None:
        """Note the keys of records that came at this time. Keys that came before, or are no marks,
        do not count."""
        newest: dict[int, int] = {}
        for key in keys:
            if key is not None and key.startswith(_PREFIX):
                partition, at = map(int, key[len(_PREFIX) :].split(b"-"))
                newest[partition] = max(at, newest.get(partition, -1))
        for partition, number in newest.items():
            arrivals = self._arrivals[partition]
            if not arrivals or arrivals[-1].number < number:
                arrivals.append(Arrival(time_s, number))

    def rate(self, ready_s: float, step: int) -> float | None:
        """Return the records a second from `ready_s` on, with `step` records from mark to mark of a
        partition; None if there are too few marks."""
        after = [[each for each in found if each.time_s >= ready_s] for found in self._arrivals]
        if not all(after):
            return None
        first_s = max(found[0].time_s for found in after)
        last_s = min(found[-1].time_s for found in after)
        rates = []
        for found in after:
            within = [each for each in found if first_s <= each.time_s <= last_s]
            if len(within) < 2:
                return None
            begin, end = within[0], within[-1]
            rates.append(step * (end.number - begin.number) / (end.time_s - begin.time_s))
        return sum(rates)
