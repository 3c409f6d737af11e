"""Tables with a history, and joins of streams with them as of the time of each record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.operator import Clock, IsNewest, Operator, Row
from moldau.streams.engine.operators.stream_join import joined
from moldau.streams.plan.joins import DelayedLookup, JoinKind
from moldau.streams.state.agenda import Agenda
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.versioned import VersionedStore

AsOf = Callable[[Any, int], Row | None]


class VersionedTable(Operator):
    """A table with a history. Updates from before the history are dropped.

    Out-of-order updates go downstream like the others. They are for lookups as of a time: joins of
    tables and groups leave them out (`in_order`).
    """

    scalars = ("keyless", "late")

    def __init__(self, store: VersionedStore) -> None:
        super().__init__()
        self.store = store
        self.late = 0

    def entry(self, parent: str) -> Callable[..., None]:
        return self.on_record

    def get(self, key: Any) -> Row | None:
        return self.store.get(key)

    def as_of(self, key: Any, time: int) -> Row | None:
        return self.store.as_of(key, time)

    def is_newest(self, key: Any, time: int) -> bool:
        return self.store.newest_time(key) <= time

    def start(self) -> None:
        self.store.load()

    def on_record(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        if key is None:
            self.keyless += 1
            return
        old = self.store.as_of(key, time)
        if self.store.put(key, value, time):
            self.forward(key, value, None if old is None else old[0], time, headers)
        else:
            self.late += 1

    def expire(self) -> None:
        self.store.expire()


def in_order(entry: Callable[..., None], is_newest: IsNewest) -> Callable[..., None]:
    """Return `entry` for updates in order: a later update of the key must not have come before."""

    def on_update(key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        if is_newest(key, time):
            entry(key, new, old, time, headers)

    return on_update


class DelayedLookupOperator(Operator):
    """Holds records of a stream back for the grace, so that late versions of rows are found.

    Only the records of the stream advance its clock, and of those only records with a key and a
    value. They come out by time, then key, then arrival; a record that is older than the grace when
    it arrives is joined at once.
    """

    def __init__(
        self, operation: DelayedLookup, clock: Clock, store: KeyValueStore, as_of: AsOf
    ) -> None:
        super().__init__(clock)
        self._operation = operation
        self._store = store
        self._as_of = as_of
        self._joiner = joined(operation.call.function, takes_key=operation.call.takes_key)
        # The held records, as the bytes of their keys: time, 0, key.
        self._held = Agenda(store.first_keys)
        self._join_held: Callable[..., None] = self._join

    def start(self) -> None:
        self._join_held = self.guard(self._join, 0)

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_record

    def _on_record(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        if value is None:
            return
        if key is None:
            if self._operation.join is JoinKind.LEFT:
                self.forward(None, self._joiner(None, value, None), time, headers)
            else:
                self.keyless += 1
            return
        self.clock.time = max(self.clock.time, time)
        if time < self.clock.time - self._operation.grace_ms:
            self._join(key, value, time, headers)
        else:
            place = (time, 0, key)
            entry = self._store.get(place)
            held = (value, tuple(headers or ()))
            self._store.put(place, [held] if entry is None else [*entry[0], held], time)
            if entry is None:
                self._held.add(self._store.keys.codec.encode(place))
        self._join_due(self.clock.time - self._operation.grace_ms)

    def _join_due(self, until: int) -> None:
        while self._held.first_time <= until:
            first = self._held.first()
            if first is None or self._held.first_time > until:
                return
            popped = self._held.pop()
            if self.undo is not None:
                self.undo.append((self._held.add, popped))
            at, _, key = place = self._store.keys.codec.decode(popped)
            entry = self._store.put(place, None, at)
            if entry is not None:  # an entry may be returned twice
                for value, headers in entry[0]:
                    self._join_held(key, value, at, headers)

    def _join(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        row = self._as_of(key, time)
        if row is not None:
            self.forward(key, self._joiner(key, value, row[0]), time, headers)
        elif self._operation.join is JoinKind.LEFT:
            self.forward(key, self._joiner(key, value, None), time, headers)
