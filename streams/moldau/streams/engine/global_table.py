"""A global table: a whole topic in a store, held by every worker and looked up by its tasks."""

from __future__ import annotations

from typing import Protocol

from moldau.streams.engine.batches import Chunk
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
    """The rows of a global table, as bytes in the backing.

    A row that was looked up stays decoded until more records are applied. Invariant: every row in
    the store could be read when it was applied.
    """

    def __init__(
        self, table: GlobalTable, backing: Backing, *, cache_bytes: int = 10 * 1024 * 1024
    ) -> None:
        self.table = table
        self.store = KeyValueStore(table.store, backing)
        self.skipped = 0
        self._cache_bytes = cache_bytes

    def renew(self, backing: Backing) -> None:
        """Continue with another backing: the rows of the old one were damaged."""
        self.store = KeyValueStore(self.table.store, backing)

    def apply(self, chunk: Chunk, partition: int = 0) -> list[RecordFailed]:
        """Apply records of any partition of the topic. A null key is ignored.

        Raise RecordFailed for a record that cannot be read, or return it if the policy is to skip
        it.
        """
        changes = ChangelogRecords()
        skipped: list[RecordFailed] = []
        for offset, key, value, time in zip(
            chunk.offsets, chunk.keys, chunk.values, chunk.timestamps, strict=True
        ):
            if key is None:
                continue
            try:
                own_key = self._read(key, value)
            except UNREADABLE as error:
                place = RecordPlace(self.table.topic, partition, offset, self.table.store.name)
                failed = RecordFailed(place, error, GLOBAL_ADVICE)
                if self.table.on_error.then != "skip":
                    raise failed from error
                skipped.append(failed)
            else:
                changes.add(own_key, value, time)
        self.skipped += len(skipped)
        self.store.restore(changes)
        self.store.cache.clear()
        return skipped

    def _read(self, key: bytes, value: bytes | None) -> bytes:
        """Return the key as the store looks it up. Raise if the record cannot be read."""
        if value is not None:
            self.table.store.value.decode(value)
        return own_bytes(self.table.store.key, key)

    def get(self, key: object) -> Entry | None:
        self.store.trim(self._cache_bytes)
        return self.store.get(key)


GLOBAL_ADVICE = (
    'every worker reads it: delete the key from the topic, or set on_error="skip" on '
    "global_table(...)"
)
