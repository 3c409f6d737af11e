"""Holds updates of a table back: until windows close, or for a time.

Until windows close: the last update of a window comes out once stream time reaches its end and the
grace; a deletion never does. For a time: the last update of a key comes out when stream time is
`limit` past the first that was held, deletions included. What is full emits early or fails. What is
due at the same time comes in the order of the keys' bytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.clock import Clock
from moldau.streams.engine.part import Part
from moldau.streams.plan.operations import Suppress
from moldau.streams.problems import StreamsError
from moldau.streams.state.keyvalue import KeyValueStore

# Value, value before, time and headers of an update.
Held = tuple[Any, Any, int, Any]


class BufferFull(StreamsError):
    """A suppression holds as much as it may."""


class SuppressPart(Part):
    """The store holds key -> (value, value before, time of the update, headers), with the time that
    it is due. The value before is what was seen downstream, so that a change can be taken back."""

    def __init__(self, operation: Suppress, clock: Clock, store: KeyValueStore, name: str) -> None:
        super().__init__(clock)
        self.idle_ms = operation.idle_ms
        self._name = name
        self._operation = operation
        self._store = store
        # (due, bytes of the key, name of the key); stale ones are those that are no more held.
        self._due: list[tuple[int, bytes, Any]] = []
        self._held: dict[Any, tuple[int, int]] = {}
        self._bytes = 0

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_update

    def start(self) -> None:
        for key, (held, due) in list(self._store.items()):
            self._hold(self._store.keys.name(key), due, held)

    def _on_update(self, key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        operation = self._operation
        self.clock.time = max(self.clock.time, time)
        name = self._store.keys.name(key)
        if operation.until_close:
            due = key[2] + operation.limit_ms
            if new is None:
                self._release(name)
            else:
                self._keep(name, key, (new, None, time, tuple(headers or ())), due)
        elif name in self._held:
            entry = self._store.get(key)
            assert entry is not None
            held = (new, entry[0][1], time, tuple(headers or ()))
            self._keep(name, key, held, self._held[name][0])
        elif time + operation.limit_ms < self.clock.time:
            self.forward(key, new, old, time, headers)
        else:
            held = (new, old, time, tuple(headers or ()))
            self._keep(name, key, held, time + operation.limit_ms)
        self._emit_due()
        self._make_room()

    def _keep(self, name: Any, key: Any, held: Held, due: int) -> None:
        is_queued = name in self._held and self._held[name][0] == due
        self._release(name)
        self._store.put(key, held, due)
        self._hold(name, due, held, is_queued=is_queued)

    def _hold(self, name: Any, due: int, held: Held, *, is_queued: bool = False) -> None:
        size = 0
        if self._operation.bytes_max is not None:
            size = len(self._store.keys.encoded(name)) + len(self._store.spec.value.encode(held))
        if not is_queued:
            heapq.heappush(self._due, (due, self._store.keys.encoded(name), name))
        self._held[name] = (due, size)
        self._bytes += size

    def _release(self, name: Any) -> tuple[Any, Held] | None:
        """Take a key out of the buffer."""
        if name not in self._held:
            return None
        self._bytes -= self._held.pop(name)[1]
        key = self._store.keys.original(name)
        entry = self._store.get(key)
        assert entry is not None
        self._store.put(key, None, entry[1])
        held: Held = entry[0]
        return key, held

    def _emit_due(self) -> None:
        while self._due and self._due[0][0] <= self.clock.time:
            self._emit_first()

    def _emit_first(self) -> None:
        due, _, name = heapq.heappop(self._due)
        if self._held.get(name, (None, 0))[0] != due:
            return
        released = self._release(name)
        assert released is not None
        key, (value, before, time, headers) = released
        self.forward(key, value, before, time, headers)

    def _make_room(self) -> None:
        operation = self._operation
        while (operation.records_max is not None and len(self._held) > operation.records_max) or (
            operation.bytes_max is not None and self._bytes > operation.bytes_max
        ):
            if not operation.emits_when_full:
                raise BufferFull(
                    f"operator={self._name}: it holds {len(self._held)} records, "
                    f"{self._bytes} bytes, more than it may; raise max_records or max_bytes, "
                    'or set when_full="emit"'
                )
            self._emit_first()

    def advance(self, time: int) -> None:
        super().advance(time)
        self._emit_due()
