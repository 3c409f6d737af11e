"""Joins of two tables by key: an update of either side makes a new result.

A tombstone is passed on whenever the other side has a value, even if there was no result before.
The time of a result is the later one of both sides.

An update meets the row that the other side has emitted last, not a later one that waits for a
commit: otherwise, if both sides delete a row, each may find the other's gone already and keep the
result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.flight import Arrivals
from moldau.streams.engine.operator import Getter, Operator, Row
from moldau.streams.engine.row_functions import RowFunctions
from moldau.streams.plan.joins import JoinKind, TableJoin

_LEFT, _RIGHT = 0, 1


class TableJoinOperator(Operator):
    def __init__(
        self,
        operation: TableJoin,
        joiners: RowFunctions,
        parents: tuple[str, str],
        getters: tuple[tuple[Getter, Getter], tuple[Getter, Getter]],
        arrivals: Arrivals | None,
    ) -> None:
        """`getters` find the present rows of both sides, and those that they emitted last.
        `arrivals` is for sides that come from one table."""
        super().__init__()
        self._kind = operation.join
        self._parents = parents
        self._getters, (self._left, self._right) = getters
        self._arrivals = arrivals
        self._joiners = joiners

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_left if parent == self._parents[0] else self._on_right

    def get(self, key: Any) -> Row | None:
        """Return the row of the result, made from the present rows of both sides."""
        return self._made(key, self._getters)

    def emitted(self, key: Any) -> Row | None:
        """Return the row of the result as it was emitted last."""
        return self._made(key, (self._left, self._right))

    def _made(self, key: Any, getters: tuple[Getter, Getter]) -> Row | None:
        left, right = getters[0](key), getters[1](key)
        values = (None if row is None else row[0] for row in (left, right))
        result = self._result(self._joiners.looked_up, key, *values)
        times = [row[1] for row in (left, right) if row is not None]
        return None if result is None else (result, max(times))

    def _on_left(self, key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        if key is None:
            return
        other = self._met((_LEFT, _RIGHT), key, (new, time), self._right)
        right = None if other is None else other[0]
        if right is None and (self._kind is JoinKind.INNER or (new is None and old is None)):
            return
        result = self._result(self._joiners.of_new, key, new, right)
        before = self._result(self._joiners.of_old, key, old, right)
        at = time if other is None else max(time, other[1])
        self.forward(key, result, before, at, headers)

    def _on_right(self, key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        if key is None:
            return
        other = self._met((_RIGHT, _LEFT), key, (new, time), self._left)
        left = None if other is None else other[0]
        if left is None and (self._kind is not JoinKind.OUTER or (new is None and old is None)):
            return
        result = self._result(self._joiners.of_new, key, left, new)
        before = self._result(self._joiners.of_old, key, left, old)
        at = time if other is None else max(time, other[1])
        self.forward(key, result, before, at, headers)

    def _met(
        self, sides: tuple[int, int], key: Any, update: tuple[Any, int], get: Getter
    ) -> Row | None:
        """Return the row of the other side that an update of one side meets."""
        if self._arrivals is None:
            return get(key)
        other = self._arrivals.find(sides[1], key, get)
        self._arrivals.arrive(sides[0], *update)
        return other

    def _result(self, join: Callable[[Any, Any, Any], Any], key: Any, left: Any, right: Any) -> Any:
        """Return the joined value; None if this kind of join has none."""
        if left is None and (right is None or self._kind is not JoinKind.OUTER):
            return None
        if right is None and self._kind is JoinKind.INNER:
            return None
        return join(key, left, right)
