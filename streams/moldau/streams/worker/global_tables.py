"""The global tables of a worker: whole topics in one database, which all of its tasks look up.

Invariants: the rows and the offset of each partition reach RocksDB in one batch, so a worker that
was killed continues from what it had stored, and the processor of a global store has run once on
each record that the rows show; no task starts before all tables hold what their
topics held when the worker started. Nothing changes the stores while tasks run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from moldau.folds.progress import FoldProgress
from moldau.runtime.files import Files
from moldau.streams.engine.global_table import GlobalStore
from moldau.streams.plan.plan import GlobalTable
from moldau.streams.problems import RecordFailed
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import ChangelogPosition, StoreCorrupted, TaskDatabase, position_name
from moldau.streams.worker.door import Door, FetchedChunk, TopicFacts, TopicPartition
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.restore import holds
from moldau.streams.worker.state_directory import GLOBAL
from moldau.streams.worker.tasks import Database, OpenDatabase, store_kinds

_POLL_S: Final = 0.1
_FLUSH_RECORDS: Final = 10_000
"""After so many records RocksDB writes a file, so that a worker that is killed keeps them."""


class GlobalTables:
    """The global tables of one worker. Opened once, then read in every turn."""

    def __init__(
        self,
        tables: Sequence[GlobalTable],
        door: Door,
        gate: Gate,
        files: Files,
        reports: Reports,
        cache_bytes: int,
    ) -> None:
        self._tables = {table.store.name: table for table in tables}
        self._of_topic: dict[str, list[str]] = {}
        for name, table in self._tables.items():
            self._of_topic.setdefault(table.topic, []).append(name)
        self._door = door
        self._gate = gate
        self._files = files
        self._reports = reports
        self._cache_bytes = cache_bytes
        self._topics: Mapping[str, TopicFacts] = {}
        self._database: Database | None = None
        self._open: Callable[[], Database] | None = None
        self._progress = FoldProgress()
        self._ends: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int] = {}
        # By table, what it had when it was opened: another table of its topic may have had less.
        self._begins: dict[str, dict[TopicPartition, int]] = {}
        self._is_partial = False
        """Whether the stores have a part of what was fetched, which no offset says."""
        self._unflushed = 0
        self.stores: dict[str, GlobalStore] = {}
        self.is_complete = False
        """Whether the tables hold what their topics held at the start."""

    async def start(
        self, open_database: OpenDatabase, path: str, topics: Mapping[str, TopicFacts]
    ) -> None:
        """Open the database and begin to read where it was left."""
        self._topics = topics
        kinds = store_kinds(table.store for table in self._tables.values())
        self._open = lambda: open_database(path, kinds)
        await self._begin()

    async def _begin(self) -> None:
        partitions = [
            TopicPartition(table.topic, partition)
            for table in self._tables.values()
            for partition in range(self._topics[table.topic].partitions)
        ]
        ends = await self._door.ends(sorted(set(partitions)))
        self._ends = {where: end for where, (_, end) in ends.items()}
        await self._gate.run(self._open_at, ends)
        self._reports.restoring_globals(self._progress.positions, self._ends)
        await self._door.globals.read_from(self._progress.positions)

    def _open_at(self, ends: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Open the database and find where each partition continues; runs on a thread."""
        assert self._open is not None
        try:
            database = self._open()
        except StoreCorrupted as error:
            self._set_aside(error)
            database = self._open()
        self._database = database
        positions = dict(self._ends)
        for name, table in self._tables.items():
            begins = self._begins[name] = self._positions(database, name, table, ends)
            for where, offset in begins.items():
                positions[where] = min(positions[where], offset)
            backing = database.backing(name)
            if name in self.stores:
                self.stores[name].renew(backing)
            else:
                self.stores[name] = GlobalStore(table, backing, cache_bytes=self._cache_bytes)
        self._progress = FoldProgress(positions)
        self._stored = positions
        self._is_partial = False

    def _positions(
        self,
        database: Database,
        name: str,
        table: GlobalTable,
        ends: Mapping[TopicPartition, tuple[int, int]],
    ) -> dict[TopicPartition, int]:
        """Return where each partition continues. Rows that no longer fit the topic are deleted."""
        facts = self._topics[table.topic]
        found = {}
        for partition in range(facts.partitions):
            where = TopicPartition(table.topic, partition)
            first, end = ends[where]
            position = database.position(position_name(name, partition))
            if position is None:
                found[where] = first
            elif holds(position, first, end, facts):
                found[where] = position.offset
            else:
                self._reports.cleared_global(name, table.topic)
                everything = range(facts.partitions)
                # The positions first: a crash in between leaves rows that are cleared again.
                database.commit(
                    {position_name(name, each): ChangelogPosition(0) for each in everything}
                )
                database.clear(name)
                return {
                    where: begin for where, (begin, _) in ends.items() if where.topic == table.topic
                }
        return found

    async def restore(self, is_stopping: Callable[[], bool]) -> None:
        """Read until the tables hold what the topics held at the start, or the worker stops."""
        while not is_stopping() and self._progress.unread(self._ends):
            await self._take_in(await self._door.globals.read(_POLL_S))
            await self.commit()
        await self._gate.run(self._flush)
        self.is_complete = True
        self._reports.restored_globals()

    async def read(self) -> None:
        """Apply the records that have arrived since the last call."""
        fetched = await self._door.globals.read(0.0)
        if fetched:
            await self._take_in(fetched)

    async def _take_in(self, fetched: Sequence[FetchedChunk]) -> None:
        self._is_partial = True
        try:
            for failed in await self._gate.run(self._apply, fetched):
                self._reports.skipped_global(str(failed))
        except StoreCorrupted as error:
            await self.heal(error)
            return
        reached = {where: self._door.globals.position(where) or None for where in self._stored}
        self._progress.on_read(reached)
        self._is_partial = False

    def _apply(self, fetched: Sequence[FetchedChunk]) -> list[RecordFailed]:
        """Apply records, on a thread, to the tables that do not have them yet."""
        skipped = []
        for where, chunk in fetched:
            for name in self._of_topic[where.topic]:
                new = chunk.since(self._begins[name][where])
                skipped += self.stores[name].apply(new, where.partition)
            self._unflushed += len(chunk)
        return skipped

    async def commit(self) -> None:
        """Store the applied records with their offsets."""
        if not self._is_partial and self._progress.positions != self._stored:
            await self._gate.run(self._store)

    def _store(self) -> None:
        assert self._database is not None
        self._database.commit(
            {
                position_name(name, where.partition): ChangelogPosition(
                    max(offset, self._begins[name][where]), self._topics[where.topic].topic_id
                )
                for where, offset in self._progress.positions.items()
                for name in self._of_topic[where.topic]
            }
        )
        self._stored = dict(self._progress.positions)
        if self._unflushed >= _FLUSH_RECORDS:
            self._flush()

    def _flush(self) -> None:
        assert self._database is not None
        if self._unflushed:
            self._database.flush()
            self._unflushed = 0

    def has(self, path: str) -> bool:
        """Whether the database is the one at `path`."""
        return self._database is not None and self._database.path == path

    async def heal(self, error: StoreCorrupted) -> None:
        """Rebuild the tables from their topics; tasks wait until `restore` has returned."""
        self.is_complete = False
        await self._gate.run(self._drop, error)
        await self._door.globals.aclose()
        await self._begin()
        await self.restore(lambda: False)

    def _drop(self, error: StoreCorrupted) -> None:
        assert self._database is not None
        self._database.close()
        self._set_aside(error)

    def _set_aside(self, error: StoreCorrupted) -> None:
        aside = TaskDatabase.set_aside(str(error.context["path"]), self._files)
        self._reports.damaged(GLOBAL, str(error), aside)

    async def aclose(self) -> None:
        """Store the applied records with their offsets, and close the database."""
        await self._door.globals.aclose()
        if self._database is not None:
            await self.commit()
            await self._gate.run(self._close)

    def _close(self) -> None:
        assert self._database is not None
        database, self._database = self._database, None
        try:
            for store in self.stores.values():
                store.close()
        finally:
            database.close()
