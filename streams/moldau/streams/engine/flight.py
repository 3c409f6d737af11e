"""Updates that reach a join of tables on two ways.

Two tables that come from one (a table and a filter of it, say) change with one update of that one,
but they reach their join one after the other. The first to arrive must find the other side as it
was before the update, and the second the first one as it is now; otherwise a row that goes on both
sides at once would stay in the result. So a table with several ways to a join says which update is
under way, its *flight*, and the join remembers what has arrived in it.

Invariant: all updates of a flight have the key of its row, since nothing on the way changes keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from moldau.streams.engine.operator import Getter, Operator, Row
from moldau.streams.plan.joins import TableJoin
from moldau.streams.plan.operations import Step

_UNKNOWN_MS = -1


class Flight:
    """The update that is under way in a task, if it has several ways to a join."""

    def __init__(self) -> None:
        self.number = 0
        self.depth = 0

    def begin(self, operator: Operator, key: Any, old: Any) -> None:
        """A table sends an update: the row of `key` was `old` before."""
        if not self.depth:
            self.number += 1
        self.depth += 1
        operator.in_flight = (key, old)

    def end(self, operator: Operator) -> None:
        """The update has gone all its ways."""
        self.depth -= 1
        operator.in_flight = None


class Arrivals:
    """The rows of both sides of a join that have arrived in the present flight."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._number = 0
        self._rows: dict[int, Row | None] = {}

    def arrive(self, side: int, value: Any, time: int) -> None:
        """An update of a side has come."""
        if self._flight.depth:
            if self._number != self._flight.number:
                self._number = self._flight.number
                self._rows.clear()
            self._rows[side] = None if value is None else (value, time)

    def find(self, side: int, key: Any, get: Getter) -> Row | None:
        """Return the row of a side: the one that has come in this flight, or what `get` finds."""
        if self._flight.depth and self._number == self._flight.number and side in self._rows:
            return self._rows[side]
        return get(key)


def before_flight(operator: Operator, get: Getter) -> Getter:
    """Return `get` with the row before the update for the key that `operator` has under way."""

    def found(key: Any) -> Row | None:
        if operator.in_flight is None or operator.in_flight[0] != key:
            return get(key)
        old = operator.in_flight[1]
        return None if old is None else (old, _UNKNOWN_MS)

    return found


def several_ways(steps: Sequence[Step]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the joins of tables whose sides come from one step, and the steps that they come
    from."""
    before: dict[str, frozenset[str]] = {}
    joins: set[str] = set()
    shared: set[str] = set()
    for step in steps:
        before[step.name] = frozenset([step.name]).union(*_before(step.parents, before))
        if isinstance(step.operation, TableJoin):
            left, right = _before(step.parents, before)
            if left & right:
                joins.add(step.name)
                shared |= left & right
    return frozenset(joins), frozenset(shared)


def _before(parents: Iterable[str], before: dict[str, frozenset[str]]) -> list[frozenset[str]]:
    return [before[parent] for parent in parents]
