"""Aggregations of tables grouped by another key: old values are taken out again.

Updates come as (new, old): one to the group that a row leaves, one to the group that it enters, or
one with both values if the row stays in its group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.aggregates import KeyedTable
from moldau.streams.engine.batches import Headers
from moldau.streams.engine.folds import Folds
from moldau.streams.engine.operator import Operator
from moldau.streams.engine.row_functions import RowFunctions
from moldau.streams.plan.operations import Emit, TableAggregate
from moldau.streams.state.journal import MISSING, put_back
from moldau.streams.state.keyvalue import KeyValueStore


class RegroupOperator(Operator):
    """Sends each update of a row to its new group, and the old value to the group it was in."""

    def __init__(self, functions: RowFunctions) -> None:
        super().__init__()
        self._functions = functions

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_update

    def _on_update(self, key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        if key is None:
            return
        functions = self._functions
        old_key, old_value = (None, None) if old is None else functions.of_old(key, old)
        new_key, new_value = (None, None) if new is None else functions.of_new(key, new)
        if old_key == new_key:
            if new_key is not None:
                self.forward(new_key, (new_value, old_value), time, headers)
            return
        if old_key is not None:
            self.forward(old_key, (None, old_value), time, headers)
        if new_key is not None:
            self.forward(new_key, (new_value, None), time, headers)


class TableAggregateOperator(KeyedTable):
    def __init__(self, operation: TableAggregate, store: KeyValueStore) -> None:
        self._folds = Folds(operation.folding)
        at_commit = operation.emit is Emit.COMMIT
        super().__init__(store, self._folds.result, emits_at_commit=at_commit)
        self._codec = None if store.spec.value.is_immutable else store.spec.value

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_update

    def _on_update(
        self, key: Any, update: tuple[Any, Any] | None, time: int, headers: Headers | None
    ) -> None:
        if key is None or update is None:
            return
        new_value, old_value = update
        entry = self.store.get(key)
        before = now = None if entry is None else entry[0]
        if entry is not None:
            time = max(time, entry[1])
            if self._codec is not None:
                now = self._codec.decode(self._codec.encode(now))
        if old_value is not None and now is not None:
            now = self._folds.remove(now, key, old_value)
        if new_value is not None:
            now = self._folds.add(now, key, new_value)
        self.store.put(key, now, time)
        if self.emits_at_commit:
            if headers or self.headers:
                name = self.store.keys.name(key)
                if self.undo is not None:
                    kept = self.headers.get(name, MISSING)
                    self.undo.append((put_back, self.headers, name, kept))
                self.headers[name] = headers
        else:
            seen = self._folds.seen
            self.forward(key, seen(now), seen(before), time, headers)
