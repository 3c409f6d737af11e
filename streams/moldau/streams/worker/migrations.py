"""Stores with values that have another form than before: their rows are changed before records run.

A task with such stores stays RESTORING when it is restored. Then some rows at a time are changed,
each in a transaction: the changelog gets their new values, the app's topic what version the rows
have now, and the group the offsets that the task has already, so that a worker that has lost the
task cannot commit (KIP-447). After the transaction the local store gets the rows, with the offset
of the changelog.

Invariants: every transaction leaves a changelog in which the version of each row is known; the
local store is at most behind it, as after any commit. So a worker that is killed in the middle, or
another one that gets the task, restores what is there and goes on. A worker of an earlier version
of the app is refused a task with newer rows.

Why not a copy of the store beside the old one: it would need as much room again, and standbys would
have to change to it in one moment. They follow the changelog, and so have the new rows anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.ids import Uuid
from moldau.runtime import Runtime
from moldau.streams.plan.plan import Program
from moldau.streams.plan.store_versions import FIRST, StoreVersion
from moldau.streams.problems import StateError, offsets_lost
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import ChangelogPosition
from moldau.streams.state.backing import Backing
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.migrating import migrated, require_readable, require_steps
from moldau.streams.state.spec import StoreSpec
from moldau.streams.worker.commit import offsets_of
from moldau.streams.worker.door import Door, TopicFacts, TopicPartition
from moldau.streams.worker.kept import KeptTopology
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.tasks import TaskId, WorkerTask


class Migrations:
    """The versions of the rows in the stores of one worker."""

    def __init__(
        self, door: Door, kept: KeptTopology, beside: tuple[Gate, Runtime, Reports]
    ) -> None:
        self._app = door.app
        self._door = door
        self._kept = kept
        self._gate, self._runtime, self._reports = beside
        self._versions: dict[tuple[str, int], StoreVersion] = {}
        self._are_known = True
        """Whether they are those of the rows: not if the worker stopped while it read them."""

    def sources(self) -> list[TopicPartition]:
        """Return the partition that says which versions there are; none if it cannot be used."""
        return self._kept.sources()

    async def learn(self, ends: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Learn the versions again if there is something new by these ends."""
        for where in self.sources():
            if where in ends:
                found = await self._kept.versions(ends[where][1])
                self._are_known = found is not None
                self._versions = found or {}

    def check(self, task_id: TaskId, program: Program) -> None:
        """Raise StateError if a store of the task has rows of a later version."""
        for store in program.stores:
            if _has_versions(store):
                require_readable(store, self._at(store, task_id.partition).newest)

    def are_left(self, task: WorkerTask) -> bool:
        """Whether a store of the task has rows of an earlier version, or may have some."""
        return not self._are_known or self._next(task) is not None

    async def advance(self, task: WorkerTask, topics: Mapping[str, TopicFacts]) -> None:
        """Change some rows of a store; its version is known on return. Raises what a commit raises:
        then nothing has changed."""
        store = self._next(task)
        assert store is not None
        assert task.database is not None
        partition = task.task_id.partition
        at = self._at(store, partition)
        rows = task.database.backing(store.name)
        if await self._gate.run(_is_empty, rows):
            await self._note(task, store, StoreVersion(store.version))
            return
        to = store.version if at.to is None else at.to
        self._require_whole(store, at, to)
        found = await self._gate.run(migrated, store, (at.version, to), rows, at.before)
        after = StoreVersion(to)
        if found.following is not None:
            after = StoreVersion(at.version, to, found.following, store.layout)
        if len(found.changes):
            ids = {name: facts.topic_id for name, facts in topics.items()}
            end = await self._commit((task, store), found.changes, after, ids)
            where = task.changelog(store)
            assert where is not None
            position = ChangelogPosition(end, ids[where.topic])
            await self._gate.run(_store, task, store.name, found.changes, position)
            self._versions[store.name, partition] = after
            self._reports.migrated(task, store.name, len(found.changes), after.newest)
        elif found.following is None:
            await self._note(task, store, after)
        else:
            self._versions[store.name, partition] = after

    async def _note(self, task: WorkerTask, store: StoreSpec, at: StoreVersion) -> None:
        """Record a version that no row has to be changed for: with the first commit of the task, so
        that it is not there before a row of that version is. A commit that is not atomic may be cut
        in two, so it comes before."""
        partition = task.task_id.partition
        if self._door.committer.is_atomic:
            now_ms = self._runtime.clock.wall_ms()
            task.hold(self._kept.noted(store.name, partition, at, now_ms))
        else:
            await self._kept.note(store.name, partition, at)
        self._versions[store.name, partition] = at

    async def _commit(
        self,
        which: tuple[WorkerTask, StoreSpec],
        changes: ChangelogRecords,
        after: StoreVersion,
        topic_ids: Mapping[str, Uuid],
    ) -> int:
        """Commit changed rows and their version; return the end of the changelog."""
        task, store = which
        committer, where = self._door.committer, task.changelog(store)
        assert where is not None
        if not committer.is_atomic:
            raise StateError(
                f"app={self._app} store={store.name}: its rows have version "
                f"{self._at(store, task.task_id.partition).version}, and become version "
                f"{after.newest} only with exactly-once, which tells after a crash which are done: "
                "start the app once with processing.guarantee=exactly_once_v2"
            )
        offsets = offsets_of(task, topic_ids)
        if not offsets:
            raise StateError(f"app={self._app} store={store.name}: {offsets_lost()}")
        now_ms = self._runtime.clock.wall_ms()
        logged = {where: await committer.log(where, changes)}
        await committer.send(self._kept.noted(store.name, where.partition, after, now_ms))
        ends = await committer.written(logged, offsets)
        await committer.commit(offsets)
        return ends[where]

    def _require_whole(self, store: StoreSpec, at: StoreVersion, to: int) -> None:
        require_steps(store, at.version, to)
        if at.to is not None and at.layout != store.layout:
            raise StateError(
                f"app={self._app} store={store.name}: a migration to version {to} was cut short, "
                "and the app has another retention or kind of window now: first run it as it was, "
                "until the migration is done"
            )

    def _next(self, task: WorkerTask) -> StoreSpec | None:
        for store in task.program.stores:
            if differs(store, self._at(store, task.task_id.partition)):
                return store
        return None

    def _at(self, store: StoreSpec, partition: int) -> StoreVersion:
        return self._versions.get((store.name, partition), FIRST)


def _has_versions(store: StoreSpec) -> bool:
    """Whether its rows are the app's own, in a changelog. Those of an input are its producers'."""
    return store.is_logged and store.source_topic is None


def differs(store: StoreSpec, at: StoreVersion) -> bool:
    """Whether rows of these versions are not all of the one that the app declares."""
    return _has_versions(store) and (at.to is not None or at.version != store.version)


def _is_empty(rows: Backing) -> bool:
    return next(iter(rows.scan(b"", None)), None) is None


def _store(
    task: WorkerTask, store: str, changes: ChangelogRecords, position: ChangelogPosition
) -> None:
    """Write committed rows into the local store."""
    assert task.database is not None
    task.task.restore(store, changes)
    task.database.commit({store: position})
