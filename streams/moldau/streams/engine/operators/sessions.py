"""Aggregations in sessions.

The aggregate of a record's session is the initial value, merged with each old session in reach in
the order of ends, and then the record added. Unless the new session has this one record alone, the
old ones are retracted first, even one that does not change. The time of a result is the end of its
session.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from moldau.streams.engine.aggregates import ROWS
from moldau.streams.engine.batches import Headers
from moldau.streams.engine.folds import Folds
from moldau.streams.engine.operator import NEVER, Clock, Operator, Row
from moldau.streams.plan.operations import Emit, SessionAggregate
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.sessions import SessionStore, Span


class SessionTable(Operator):
    """A table of sessions. A session is over once stream time has passed its end + gap + grace."""

    scalars = ("keyless", "late")

    def __init__(self, operation: SessionAggregate, clock: Clock, store: SessionStore) -> None:
        super().__init__(clock)
        self.idle_ms = operation.idle_ms
        self.late = 0
        self.store = store
        self._emit = operation.emit
        self._is_announced = False
        self._gap_ms = operation.windows.gap_ms
        self._open_ms = operation.windows.gap_ms + operation.windows.grace_ms
        self._folds = Folds(operation.folding)
        self._codec = store.spec.value if operation.copies else None

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_record

    def get(self, key: Windowed[Any]) -> Row | None:
        value = self.store.value(self.store.keys.name(key.key), (key.end, key.start))
        return None if value is None else (self._folds.seen(value), key.end)

    def emitted(self, key: Windowed[Any]) -> Row | None:
        """Return the row of a session as it was emitted last; see `KeyedTable.emitted`."""
        where = (self.store.keys.name(key.key), (key.end, key.start))
        if self._emit is not Emit.COMMIT or self._is_announced or where not in self.store.dirty:
            return self.get(key)
        value = self.store.dirty[where]
        return None if value is None else (self._folds.seen(value), key.end)

    def start(self) -> None:
        self.store.load()
        if self._emit is Emit.CLOSE:
            self.store.follow_ends(self.clock.time - self._open_ms)
        self._schedule()

    def _schedule(self) -> None:
        """Set when the next open session can be over, if results are emitted then."""
        self.clock.next_close = NEVER
        if self._emit is Emit.CLOSE and (end := self.store.next_end()) is not None:
            self.clock.next_close = end + self._open_ms + 1

    def _on_record(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        if key is None or (value is None and self._folds.skips_null):
            self.keyless += key is None
            return
        self.clock.time = max(self.clock.time, time)
        store, folds = self.store, self._folds
        name = store.keys.name(key)
        met = store.find(name, time - self._gap_ms, time + self._gap_ms)
        start, end, merged = time, time, None
        for (other_end, other_start), other in met:
            start, end = min(start, other_start), max(end, other_end)
            merged = folds.merge(merged, self._copied(other), key)
        if end < self.clock.time - self._open_ms:
            self.late += 1
            if self.on_late is not None:
                self.on_late(key, value, time, headers)
        else:
            if (start, end) != (time, time):
                for span, other in met:
                    self._retract(key, name, span, other)
            old = store.value(name, (end, start))
            self._put(key, name, (end, start), (folds.add(merged, key, value), old))
        if self.clock.time >= self.clock.next_close:
            self._close(headers)

    def _copied(self, value: Any) -> Any:
        return value if self._codec is None else self._codec.decode(self._codec.encode(value))

    def _retract(self, key: Any, name: Any, span: Span, value: Any) -> None:
        self.store.remove(name, span)
        if self._emit is Emit.EVERY:
            seen = self._folds.seen(value)
            self.forward(Windowed(key, span[1], span[0]), None, seen, span[0], None)

    def _put(self, key: Any, name: Any, span: Span, change: tuple[Any, Any]) -> None:
        value, old = change
        if value is None:
            self.store.remove(name, span)
        else:
            self.store.put(name, span, value)
        if self._emit is Emit.EVERY:
            seen, before = self._folds.seen(value), self._folds.seen(old)
            self.forward(Windowed(key, span[1], span[0]), seen, before, span[0], None)
        elif self._emit is Emit.CLOSE:
            due = span[0] + self._open_ms + 1
            self.clock.next_close = min(self.clock.next_close, due)

    def _close(self, headers: Headers | None = None) -> None:
        """Emit the sessions that are over, by end, start and key."""
        below = self.clock.time - self._open_ms
        over = iter(self.store.take_over(below))
        while some := list(islice(over, ROWS)):
            self.emit_all(
                [
                    (Windowed(key, start, end), self._folds.seen(value), None, end, headers)
                    for key, (end, start), value in some
                ]
            )
        self._schedule()

    def announce(self) -> None:
        if self._emit is not Emit.COMMIT:
            return
        self._is_announced = True
        store, folds = self.store, self._folds
        changed = iter(list(store.dirty.items()))
        while some := list(islice(changed, ROWS)):
            rows = []
            for (name, span), old in some:
                new = store.value(name, span)
                if new is not None or old is not None:
                    key = Windowed(store.keys.original(name), span[1], span[0])
                    rows.append((key, folds.seen(new), folds.seen(old), span[0], None))
            self.emit_all(rows)

    def expire(self) -> None:
        self._is_announced = False
        self.store.expire()

    def advance(self, time: int) -> None:
        super().advance(time)
        if self.clock.time >= self.clock.next_close:
            self._close()
