"""The objects behind tables in the generated loop: a store, and how its updates are emitted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.operator import NEVER, Clock, Operator, Row
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.windows import OpenWindow, WindowStore

# The number of rows that are emitted at a time.
ROWS: Final = 1000

Result = Callable[[Any], Any]
_start = attrgetter("start")


class KeyedTable(Operator):
    """A table in a key-value store."""

    # Whether the updates since the last flush are emitted.
    is_announced = False

    def __init__(
        self, store: KeyValueStore, result: Result | None, *, emits_at_commit: bool
    ) -> None:
        super().__init__()
        self.store = store
        self.result = result
        self.emits_at_commit = emits_at_commit
        self.headers: dict[Any, Headers | None] = {}

    def get(self, key: Any) -> Row | None:
        """Return the row of `key` as later steps see it."""
        entry = self.store.get(key)
        if entry is None or self.result is None:
            return entry
        return self.result(entry[0]), entry[1]

    def emitted(self, key: Any) -> Row | None:
        """Return the row of `key` as it was emitted last. A join of tables needs that: it must see
        both sides change in the order of their updates."""
        if not self.emits_at_commit or self.is_announced or key is None:
            return self.get(key)
        name = self.store.keys.name(key)
        if name not in self.store.dirty:
            return self.get(key)
        entry = self.store.dirty[name]
        if entry is None or self.result is None:
            return entry
        return self.result(entry[0]), entry[1]

    def expire(self) -> None:
        self.is_announced = False

    def announce(self) -> None:
        """Emit the last update of each key that has changed since the last commit."""
        if not self.emits_at_commit:
            return
        self.is_announced = True
        kept = self.headers
        changed = iter(list(self.store.dirty.items()))
        while some := list(islice(changed, ROWS)):
            self.emit_all(self._rows(some))
        kept.clear()

    def _rows(self, changed: list[tuple[Any, Any]]) -> list[Any]:
        """Return the arguments of `emit` for names of keys and their rows at the last flush."""
        store, result, kept, found = self.store, self.result, self.headers, []
        cache, original, names_keys = store.cache, store.keys.original, store.keys.cached is None
        for name, before in changed:
            entry = cache[name]
            if entry is None and before is None:
                continue
            old = None if before is None else before[0]
            new, time = (None, store.deleted[name]) if entry is None else entry
            if result is not None:
                old = None if old is None else result(old)
                new = None if new is None else result(new)
            key = name if names_keys else original(name)
            found.append((key, new, old, time, kept.get(name) if kept else None))
        return found


class WindowedTable(Operator):
    """A table in a window store."""

    is_announced = False
    scalars = ("keyless", "late", "_closed_before")

    def __init__(
        self, store: WindowStore, clock: Clock, result: Result | None, grace_ms: int
    ) -> None:
        super().__init__(clock)
        self.store = store
        self.result = result
        self.grace_ms = grace_ms
        self.late = 0
        # How long after its start a window ends, without the grace.
        self.size_ms = store.spec.window_ms
        self.emits_at_commit = False
        self.emits_at_close = False
        self.headers: dict[Any, Headers | None] = {}

    def get(self, key: Windowed[Any]) -> Row | None:
        """Return the row of a windowed key as later steps see it."""
        entry = self.store.fetch(key.key, key.start)
        if entry is None or self.result is None:
            return entry
        return self.result(entry[0]), entry[1]

    def emitted(self, key: Windowed[Any]) -> Row | None:
        """Return the row of a windowed key as it was emitted last; see `KeyedTable.emitted`."""
        window = self.store.open.get(key.start)
        if window is None or not self.emits_at_commit or self.is_announced:
            return self.get(key)
        name = self.store.keys.name(key.key)
        if name not in window.dirty:
            return self.get(key)
        entry = window.dirty[name]
        if entry is None or self.result is None:
            return entry
        return self.result(entry[0]), entry[1]

    def window(self, start: int) -> OpenWindow:
        """Open a window, and note when it closes."""
        window = self.store.window(start)
        if self.emits_at_close and self.size_ms is not None:
            due = start + self.size_ms + self.grace_ms
            if due < self.clock.next_close:
                self.remember()
            self.clock.next_close = min(self.clock.next_close, due)
        return window

    def start(self) -> None:
        """Take over the windows of an earlier task. It has emitted those that were over."""
        size = self.size_ms
        retention = self.store.spec.retention_ms
        if size is None or retention is None:
            return
        self.store.expire(self.clock.time - retention + 1)
        if self.emits_at_close:
            over = self.clock.time - self.grace_ms
            closes = [start + size for start in self.store.starts() if start + size > over]
            self._closed_before = over
            self.clock.next_close = min(closes) + self.grace_ms if closes else NEVER

    _closed_before = -1

    def close(self, headers: Headers | None = None) -> None:
        """Emit the final results of the windows that are over, by end, then by key."""
        size = self.size_ms
        assert size is not None
        self.remember()
        over = self.clock.time - self.grace_ms
        next_close = NEVER
        for start in self.store.starts(first=self._closed_before - size + 1):
            if start + size > over:
                next_close = start + size + self.grace_ms
                break
            self._emit(self.store.window(start), headers)
        self._closed_before = over
        self.clock.next_close = next_close

    def _emit(self, window: OpenWindow, headers: Headers | None) -> None:
        """Emit the results of a window. No single record makes them: a failure stops no other."""
        result = self.result
        entries = iter(self.store.entries(window))
        while some := list(islice(entries, ROWS)):
            rows = []
            for _, key, (value, time) in some:
                seen = value if result is None else result(value)
                rows.append((Windowed(key, window.start, window.end), seen, None, time, headers))
            self.emit_all(rows)

    def announce(self) -> None:
        """Emit the last update of each key and window that has changed since the last commit."""
        if not self.emits_at_commit:
            return
        self.is_announced = True
        # By start: the order in which windows came into memory is another one after a restart.
        for window in sorted(self.store.open.values(), key=_start):
            changed = iter(list(window.dirty.items()))
            while some := list(islice(changed, ROWS)):
                self.emit_all(self._rows(window, some))
        self.headers.clear()

    def _rows(self, window: OpenWindow, changed: list[tuple[Any, Any]]) -> list[Any]:
        """Return the arguments of `emit` for names of a window and their last flushed rows."""
        original, result, kept, found = self.store.keys.original, self.result, self.headers, []
        start, end = window.start, window.end
        for name, before in changed:
            entry = window.rows[name]
            if entry is None and before is None:
                continue
            old = None if before is None else before[0]
            new, time = (None, window.deleted[name]) if entry is None else entry
            if result is not None:
                old = None if old is None else result(old)
                new = None if new is None else result(new)
            headers = kept.get((start, name)) if kept else None
            found.append((Windowed(original(name), start, end), new, old, time, headers))
        return found

    def expire(self) -> None:
        """Drop windows that are out of retention. Only after a flush: nothing may be dirty."""
        self.is_announced = False
        if self.store.spec.retention_ms is not None:
            self.store.expire(self.clock.time - self.store.spec.retention_ms + 1)

    def advance(self, time: int) -> None:
        """Advance the clock without a record, and close the windows that are over."""
        if time > self.clock.time:
            self.remember()
            self.clock.time = time
            if self.emits_at_close and time >= self.clock.next_close:
                self.close()
