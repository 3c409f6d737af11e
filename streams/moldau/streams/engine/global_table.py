"""A global table: a whole topic in a store, held by every worker and looked up by its tasks.

A global store is one with a processor, which makes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.global_updates import GlobalUpdates, OnFailed
from moldau.streams.engine.restored import own_bytes
from moldau.streams.plan.plan import GlobalTable
from moldau.streams.problems import RecordFailed, RecordPlace
from moldau.streams.serdes.types import UNREADABLE
from moldau.streams.state.backing import Backing
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.keyvalue import Entry, KeyValueStore


class LookupTable(Protocol):
    """A table that every worker holds in full: a global table, or one of a lake."""

    def get(self, key: object) -> Entry | None: ...


class GlobalStore:
    """The rows of a global table or a global store, as bytes in the backing.

    A row of a table that was looked up stays decoded until more records are applied. Invariant:
    every row in the store could be read when it was applied.
    """

    def __init__(
        self, table: GlobalTable, backing: Backing, *, cache_bytes: int = 10 * 1024 * 1024
    ) -> None:
        self.table = table
        self.backing = backing
        self.store, self._updates = self._opened()
        self.skipped = 0
        self._cache_bytes = cache_bytes

    def _opened(self) -> tuple[KeyValueStore, GlobalUpdates | None]:
        store = KeyValueStore(self.table.store, self.backing)
        return store, None if self.table.source is None else GlobalUpdates(self.table, store)

    def renew(self, backing: Backing) -> None:
        """Continue with another backing: the rows of the old one were damaged."""
        self.close()
        self.backing = backing
        self.store, self._updates = self._opened()

    def close(self) -> None:
        """Close the processor, if there is one."""
        if self._updates is not None:
            self._updates.close()

    def apply(self, chunk: Chunk, partition: int = 0) -> list[RecordFailed]:
        """Apply records of any partition of the topic. A table ignores those with a null key; a
        processor gets them.

        Raise RecordFailed for a record that cannot be read, or on which a processor fails; return
        it if the policy is to skip it. After an error the rows are those of no offset.
        """
        skipped: list[RecordFailed] = []

        def failed(offset: int, error: Exception) -> None:
            place = RecordPlace(self.table.topic, partition, offset, self.table.store.name)
            found = RecordFailed(place, error, self.table.advice)
            if self.table.on_error.then != "skip":
                raise found from error
            skipped.append(found)

        if self._updates is None:
            self._replace(chunk, failed)
        else:
            self._updates.apply(chunk, partition, failed)
        self.skipped += len(skipped)
        self.store.trim(self._cache_bytes)
        return skipped

    def _replace(self, chunk: Chunk, failed: OnFailed) -> None:
        """Take the records over as rows."""
        changes = ChangelogRecords()
        for offset, key, value, time in zip(
            chunk.offsets, chunk.keys, chunk.values, chunk.timestamps, strict=True
        ):
            if key is None:
                continue
            try:
                own_key = self._read(key, value)
            except UNREADABLE as error:
                failed(offset, error)
            else:
                changes.add(own_key, value, time)
        self.store.restore(changes)
        self.store.cache.clear()

    def _read(self, key: bytes, value: bytes | None) -> bytes:
        """Return the key as the store looks it up. Raise if the record cannot be read."""
        if value is not None:
            self.table.store.value.decode(value)
        return own_bytes(self.table.store.key, key)

    def items(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Entry]]:
        """Yield rows with keys from `first` to `last`, both included, in the order of bytes."""
        return self.store.items(first, last)

    def get(self, key: object) -> Entry | None:
        self.store.trim(self._cache_bytes)
        return self.store.get(key)
