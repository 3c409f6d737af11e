"""A global table: a whole topic in a store, held by every worker and looked up by its tasks."""

from __future__ import annotations

from moldau.streams.engine.batches import Chunk
from moldau.streams.plan.plan import GlobalTable
from moldau.streams.state.backing import Backing
from moldau.streams.state.changes import Changes
from moldau.streams.state.keyvalue import Entry, KeyValueStore


class GlobalStore:
    """The rows as bytes are below; what was looked up stays decoded until a record changes it."""

    def __init__(self, table: GlobalTable, backing: Backing) -> None:
        self.table = table
        self.store = KeyValueStore(table.store, backing)

    def apply(self, chunk: Chunk) -> None:
        """Take in records of any partition of the topic. A null key is ignored."""
        changes = Changes()
        for key, value, time in zip(chunk.keys, chunk.values, chunk.timestamps, strict=True):
            if key is not None:
                changes.add(key, value, time)
        self.store.restore(changes)
        self.store.cache.clear()

    def get(self, key: object) -> Entry | None:
        return self.store.get(key)
