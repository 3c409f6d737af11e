"""Makes the tasks of a worker, those that run and those that stand by, with their stores."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Protocol, TypeAlias

from moldau.runtime.files import Files
from moldau.streams.engine.global_table import LookupTable
from moldau.streams.plan.lost_offsets import LostOffsets
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.problems import StateError
from moldau.streams.rocks import StoreCorrupted, TaskDatabase
from moldau.streams.worker.committer import CommittedOffset, is_marked
from moldau.streams.worker.door import TopicPartition
from moldau.streams.worker.memory_stores import StoresInMemory
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.state_directory import StateDirectory
from moldau.streams.worker.tasks import (
    Database,
    MakeTask,
    OpenDatabase,
    TaskId,
    TaskState,
    WorkerTask,
    store_kinds,
)


class Closing(Awaitable[None], Protocol):
    """A close that is under way on a thread."""

    def done(self) -> bool:
        """Whether it has ended."""


RunBlocking: TypeAlias = Callable[[Callable[[], None]], Closing]
_HELD_OPEN_S: Final = 5.0
"""How long the database of a copy stays open. The coordinator gives the task itself when its former
owner has given it up, which takes a heartbeat of both."""


class TaskMaker:
    """Opens the databases of one worker, and makes tasks on them."""

    def __init__(
        self,
        make_task: MakeTask,
        directory: StateDirectory,
        open_database: OpenDatabase,
        lookups: tuple[Mapping[str, LookupTable], Mapping[str, LookupTable]],
        beside: tuple[Files, Reports],
    ) -> None:
        """`lookups` has the tables that tasks look up: global ones, and those of lakes."""
        self._make_task = make_task
        self._directory = directory
        self._open_database = open_database
        self._lookups = lookups
        self._files, self._reports = beside
        self._closing: dict[TaskId, WorkerTask] = {}
        self._being_closed: tuple[TaskId, Closing] | None = None
        self._copies: dict[TaskId, float] = {}
        """Those of them that were copies, and when they were left: all of their rows are
        committed."""

    def make(
        self,
        task_id: TaskId,
        program: Program,
        inputs: tuple[TopicPartition, ...],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> WorkerTask:
        """Open the stores of a task and make it; runs on a thread. Raise StateError if the app has
        moved to another engine."""
        texts = [committed[where].metadata for where in inputs if where in committed]
        if any(map(is_marked, texts)):
            raise StateError(
                f"app={program.app}: it has moved to Spark: run it there, with --engine spark, or "
                "move it back: moldau streams move APP --to embedded"
            )
        database = None
        if program.stores:
            database = self._taken_over(task_id) or self._open(task_id, program)
        backings = {}
        if database is not None:
            backings = {store.name: database.backing(store.name) for store in program.stores}
        held = {name: table for tables in self._lookups for name, table in tables.items()}
        task = self._make_task(program, task_id.partition, backings, texts, held)
        for topic in set(program.inputs).difference(where.topic for where in inputs):
            task.set_at_end(topic, True)  # it has fewer partitions than another input
        offsets = {where.topic: committed[where].offset for where in inputs if where in committed}
        return WorkerTask(task_id, program, inputs, task, database, committed=offsets)

    def _open(self, task_id: TaskId, program: Program) -> Database:
        path = self._directory.of_task(str(task_id))
        kinds = store_kinds(each for each in program.stores if not each.is_in_memory)
        try:
            disk = self._open_database(path, kinds)
        except StoreCorrupted as error:
            self._rename(task_id, path, error)
            disk = self._open_database(path, kinds)
        held = {each.name: each.kind.value for each in program.stores if each.is_in_memory}
        return StoresInMemory(disk, held) if held else disk

    def has_rows(self, plan: Plan, lost: LostOffsets) -> bool:
        """Whether the database of a task has rows of this store, before any task is made; runs on a
        thread."""
        task_id = TaskId(lost.program, lost.partition)
        if not self._files.exists(self._directory.of_task(str(task_id))):
            return False
        program = next(each for each in plan.programs if each.index == lost.program)
        database = self._open(task_id, program)
        try:
            return any(True for _ in database.committed(lost.store).scan(b"", None))
        finally:
            database.close()

    @property
    def closing(self) -> Collection[TaskId]:
        """The closed tasks that still have a database."""
        found = set(self._closing)
        if self._being_closed is not None:
            found.add(self._being_closed[0])
        return found

    def put_off(self, task: WorkerTask) -> None:
        """Close a task, and leave its database to `finish`."""
        self.finish(task.task_id)
        self._closing[task.task_id] = task
        task.close_engine()

    def hand_over(self, copy: WorkerTask, now_s: float) -> None:
        """Close a copy that is not damaged, but leave its database open for a while: the worker may
        get the task itself soon, and goes on with it."""
        self.put_off(copy)
        self._copies[copy.task_id] = now_s

    def _taken_over(self, task_id: TaskId) -> Database | None:
        """Return the database that the copy of a task has left. Close one that the task has left,
        which may have rows that are not committed, and stores in memory, which begin empty."""
        found = self._closing[task_id].database if task_id in self._copies else None
        if found is None or isinstance(found, StoresInMemory):
            self.finish(task_id)
            return None
        del self._copies[task_id]
        del self._closing[task_id]
        return found

    def to_close(self, now_s: float) -> TaskId | None:
        """Return one of the tasks whose databases are left; None if all may still be taken over."""
        return next(
            (
                each
                for each in self._closing
                if now_s - self._copies.get(each, -math.inf) >= _HELD_OPEN_S
            ),
            None,
        )

    async def close_beside(self, now_s: float, run_blocking: RunBlocking) -> None:
        """Close one of the databases that are left on a thread of its own, if none is being closed.
        Nothing else uses it, so that the tasks go on meanwhile. Raise what the last one raised."""
        if self._being_closed is not None:
            if not self._being_closed[1].done():
                return
            await self.settled(self._being_closed[0])
        task_id = self.to_close(now_s)
        if task_id is not None:
            self._copies.pop(task_id, None)
            task = self._closing.pop(task_id)
            self._being_closed = task_id, run_blocking(task.close_database)

    async def settled(self, task_id: TaskId) -> None:
        """Wait until the database of a task is closed if that has begun, before it is opened."""
        if self._being_closed is not None and self._being_closed[0] == task_id:
            try:
                await self._being_closed[1]
            finally:
                self._being_closed = None

    async def all_settled(self) -> None:
        """Wait for the database that is being closed, if one is."""
        if self._being_closed is not None:
            await self.settled(self._being_closed[0])

    def close_rest(self) -> None:
        """Close all databases that are left."""
        while self._closing:
            self.finish(next(iter(self._closing)))

    def finish(self, task_id: TaskId) -> None:
        """Close the database of a task if it is left."""
        self._copies.pop(task_id, None)
        task = self._closing.pop(task_id, None)
        if task is not None:
            task.close_database()

    def set_aside(self, damaged: WorkerTask) -> None:
        """Rename the files of a closed task that is damaged."""
        assert damaged.state is TaskState.CLOSED
        assert damaged.damage is not None
        assert damaged.database is not None
        self._rename(damaged.task_id, damaged.database.path, damaged.damage)

    def _rename(self, task_id: TaskId, path: str, damage: StoreCorrupted) -> None:
        aside = TaskDatabase.set_aside(path, self._files)
        self._reports.damaged(str(task_id), str(damage), aside)


def forget_frames(error: StoreCorrupted) -> None:
    """Drop the frames of an error: they hold iterators, and with them the database."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
