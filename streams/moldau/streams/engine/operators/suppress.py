"""Hold updates of a table back: until windows close, or for a time.

Until windows close: the last update of a window is emitted once stream time reaches its end and the
grace; a deletion never is. For a time: the last update of a key is emitted when stream time is
`limit` past the first held update, deletions included. A full buffer emits early or fails. Updates
that are due at the same time are emitted in the order of the keys' bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from moldau.errors.amounts import counted
from moldau.streams.engine.batches import Headers
from moldau.streams.engine.operator import Clock, Getter, Operator, Row
from moldau.streams.plan.operations import Suppress
from moldau.streams.problems import BufferFull
from moldau.streams.state.agenda import Agenda
from moldau.streams.state.keyvalue import KeyValueStore

_SINCE = Struct(">Q")
_UNKNOWN_MS = -1

# The value, the value before, the time and the headers of an update.
Held = tuple[Any, Any, int, Any]


class SuppressOperator(Operator):
    """The store holds key -> (value, value before, time of the update, headers), with the time from
    which it is held. The value before is what later steps saw last, so that a change can be taken
    back.

    An update is held from the start of its window, if windows have one size, else from the first
    update. The time when it is due would be as good, but it is the record's time in the changelog,
    and brokers refuse records from more than an hour ahead.
    """

    scalars = ("keyless", "_count", "_bytes")

    def __init__(
        self,
        operation: Suppress,
        clock: Clock,
        rows: tuple[KeyValueStore, tuple[Getter, Getter]],
        name: str,
    ) -> None:
        """`rows` are the store, and how to find a row of the table before: the present one, or the
        one that was emitted last."""
        super().__init__(clock)
        store, (self._before, self._emitted_before) = rows
        self.idle_ms = operation.idle_ms
        self._name = name
        self._operation = operation
        self._store = store
        self._hold_ms = operation.limit_ms + operation.window_ms
        # Entries are the time from which an update is held + the bytes of its key.
        self._held = Agenda(store.first_times)
        self._is_limited = operation.records_max is not None or operation.bytes_max is not None
        # How much is held, if there is a limit.
        self._count = 0
        self._bytes = 0

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_update

    def start(self) -> None:
        if self._is_limited:
            for key, (held, _) in self._store.items():
                self._count += 1
                self._bytes += self._size(key, held)

    def get(self, key: Any) -> Row | None:
        """Return the row of `key` that was let out last. Its time is unknown, -1, while a later
        update is held back."""
        return self._let_out(key, self._before)

    def emitted(self, key: Any) -> Row | None:
        """Return the row of `key` that was let out last, if the table before emits at commits."""
        return self._let_out(key, self._emitted_before)

    def _let_out(self, key: Any, before: Getter) -> Row | None:
        entry = self._store.get(key)
        if entry is None:
            return before(key)
        held: Held = entry[0]
        return None if held[1] is None else (held[1], _UNKNOWN_MS)

    def _on_update(self, key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        operation = self._operation
        self.clock.time = max(self.clock.time, time)
        before = self._store.get(key)
        if operation.until_close:
            if new is None:
                self._release(key)
            else:
                since = key[2] - operation.window_ms
                self._keep(key, (new, None, time, tuple(headers or ())), since)
        elif before is not None:
            held, since = before
            self._keep(key, (new, held[1], time, tuple(headers or ())), since)
        elif time + operation.limit_ms < self.clock.time:
            self.forward(key, new, old, time, headers)
        else:
            held = (new, old, time, tuple(headers or ()))
            self._keep(key, held, time)
        self._emit_due()
        self._make_room()

    def _keep(self, key: Any, held: Held, since: int) -> None:
        before = self._store.put(key, held, since)
        if self._is_limited:
            self._count += before is None
            self._bytes += self._size(key, held)
            if before is not None:
                self._bytes -= self._size(key, before[0])
        if before is None or before[1] != since:
            self._held.add(_SINCE.pack(since) + self._store.keys.codec.encode(key))

    def _size(self, key: Any, held: Held) -> int:
        if self._operation.bytes_max is None:
            return 0
        return len(self._store.keys.codec.encode(key)) + len(self._store.spec.value.encode(held))

    def _release(self, key: Any) -> Held | None:
        """Remove a key from the buffer, and return what was held."""
        entry = self._store.get(key)
        if entry is None:
            return None
        held: Held = entry[0]
        if self._is_limited:
            self._count -= 1
            self._bytes -= self._size(key, held)
        self._store.put(key, None, entry[1])
        return held

    def _emit_due(self) -> None:
        over = self.clock.time - self._hold_ms
        while self._held.first_time <= over:
            first = self._held.first()
            if first is None or _SINCE.unpack_from(first)[0] > over:
                return
            self._emit_first()

    def _emit_first(self) -> None:
        """Emit the update that is due first."""
        entry = self._held.pop()
        if self.undo is not None:
            self.undo.append((self._held.add, entry))
        key = self._store.keys.codec.decode(entry[8:])
        now = self._store.get(key)
        if now is None or now[1] != _SINCE.unpack_from(entry)[0]:
            return  # it was emitted, or is held from another time
        released = self._release(key)
        assert released is not None
        value, before, time, headers = released
        self.emit(key, value, before, time, headers)

    def _make_room(self) -> None:
        operation = self._operation
        while (operation.records_max is not None and self._count > operation.records_max) or (
            operation.bytes_max is not None and self._bytes > operation.bytes_max
        ):
            if not operation.emits_when_full:
                raise BufferFull(f"it holds {self._held_in_words()}, more than it may")
            first = self._held.first()
            assert first is not None, "what is held is due some time"
            self._emit_first()

    def _held_in_words(self) -> str:
        if self._operation.bytes_max is None:
            return counted(self._count, "record")
        return f"{self._count} records, {self._bytes} bytes"

    def advance(self, time: int) -> None:
        super().advance(time)
        self._emit_due()
