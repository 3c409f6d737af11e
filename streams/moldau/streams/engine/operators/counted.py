"""Aggregations in windows of a fixed number of records of a key.

The start of a window is the number of its first record among those of its key, from 0; its end is
start + size. A window's result is final once it holds `size` records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.folds import Folds
from moldau.streams.engine.operator import Operator
from moldau.streams.plan.operations import CountAggregate, Emit
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.journal import MISSING, put_back
from moldau.streams.state.keyvalue import KeyValueStore

# A change to emit: the old value, the new one, its time and headers.
Change = tuple[Any, Any, int, Headers | None]


class CountTable(Operator):
    """A table of count windows. The state of a key is the number of its records so far, and its
    open windows as (start, aggregate)."""

    def __init__(self, operation: CountAggregate, store: KeyValueStore) -> None:
        super().__init__()
        self._windows = operation.windows
        self._emit = operation.emit
        self._folds = Folds(operation.folding)
        self._codec = operation.value if operation.copies else None
        self.store = store
        self._changed: dict[Windowed[Any], Change] = {}

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_record

    def _on_record(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        if key is None or (value is None and self._folds.skips_null):
            self.keyless += key is None
            return
        size, advance = self._windows.size, self._windows.advance
        entry = self.store.get(key)
        (count, windows), latest = ((0, ()), time) if entry is None else entry
        time_of = max(latest, time)
        opened = [*windows, (count, None)] if count % advance == 0 else list(windows)
        kept = []
        for start, old in opened:
            new = self._folds.add(self._copied(old), key, value)
            is_full = count + 1 == start + size
            if not is_full:
                kept.append((start, new))
            if self._emit is not Emit.CLOSE or is_full:
                self._announced(Windowed(key, start, start + size), old, new, (time_of, headers))
        self.store.put(key, (count + 1, tuple(kept)), time_of)

    def _copied(self, value: Any) -> Any:
        if value is None or self._codec is None:
            return value
        return self._codec.decode(self._codec.encode(value))

    def _announced(
        self, key: Windowed[Any], old: Any, new: Any, when: tuple[int, Headers | None]
    ) -> None:
        old, new = self._folds.seen(old), self._folds.seen(new)
        if self._emit is Emit.EVERY:
            self.forward(key, new, old, *when)
        elif self._emit is Emit.CLOSE:
            self.forward(key, new, None, *when)
        else:
            before = self._changed.get(key)
            if self.undo is not None:
                old_change = MISSING if before is None else before
                self.undo.append((put_back, self._changed, key, old_change))
            self._changed[key] = (old if before is None else before[0], new, *when)

    def announce(self) -> None:
        changed, self._changed = self._changed, {}
        for key, (old, new, time, headers) in changed.items():
            self.emit(key, new, old, time, headers)
