"""The processor of a global store: a user's operator that makes the rows from the topic's records.

Invariant: a record is processed as a whole or not at all. There is no other way into the store, so
a restore runs the processor too (KAFKA-7663): what it filters or changes is never there raw.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.operator import Clock, Current
from moldau.streams.engine.operators.process import ProcessOperator, Stores
from moldau.streams.engine.operators.user_stores import UserStore
from moldau.streams.plan import operations as op
from moldau.streams.plan.plan import GlobalTable
from moldau.streams.problems import StateError
from moldau.streams.state.journal import Journal
from moldau.streams.state.keyvalue import KeyValueStore

OnFailed = Callable[[int, Exception], None]
"""on_failed(offset, error): carries out the policy of a record, or raises."""

_REFUSALS: Final = {
    "forward": "the processor of a global store forwards nothing: each worker runs it on each "
    "record; read the topic as a stream for that, in another app",
    "schedule": "the processor of a global store has no timers: a restore would not repeat them",
}


class GlobalUpdates:
    """Runs the processor of one global store."""

    def __init__(self, table: GlobalTable, store: KeyValueStore) -> None:
        assert table.source is not None
        self._topic, self._source, self._store = table.topic, table.source, store
        self._current, clock = Current(), Clock()
        self._journal = Journal(is_on=True)
        store.undo = self._journal.undo
        stores: Stores = {table.store.name: UserStore(store, clock)}
        operation = op.Process(table.source.make, (table.store,))
        around = (stores, self._current)
        self._operator = ProcessOperator(operation, clock, around, table.store.name)
        self._operator.refusals = _REFUSALS
        self._operator.undo = self._journal.undo
        self._run: Callable[..., None] | None = None

    def apply(self, chunk: Chunk, partition: int, on_failed: OnFailed) -> None:
        """Process records, and write their changes to the rows of the store."""
        if self._run is None and len(chunk):
            self._operator.start()
            self._run = self._operator.entry(self._topic)
        self._current.partition = partition
        for at, offset in enumerate(chunk.offsets):
            self._current.place = partial(self._place, offset)
            try:
                self._process(chunk, at)
            except StateError:
                raise
            except Exception as error:
                self._journal.roll_back()
                on_failed(offset, error)
            self._journal.clear()
        self._current.end()
        self._store.flush()

    def _place(self, offset: int) -> tuple[str, int]:
        return self._topic, offset

    def _process(self, chunk: Chunk, at: int) -> None:
        assert self._run is not None
        key, value = chunk.keys[at], chunk.values[at]
        self._operator.remember()
        self._run(
            None if key is None else self._source.key.decode(key),
            None if value is None else self._source.value.decode(value),
            chunk.timestamps[at],
            None if chunk.headers is None else chunk.headers[at],
        )

    def close(self) -> None:
        """Close the user's operator."""
        self._operator.end()
