"""Makes the tasks of a worker, those that run and those that stand by, with their stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
        self._copies: set[TaskId] = set()
        """Those of them that were copies: all of their rows are committed."""

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
        return self._closing.keys()

    def put_off(self, task: WorkerTask) -> None:
        """Close a task, and leave its database to `close_one`."""
        self._finish(task.task_id)
        self._closing[task.task_id] = task
        task.close_engine()

    def hand_over(self, copy: WorkerTask) -> None:
        """Close a copy that is not damaged, but leave its database open: the worker may get the
        task itself now, and goes on with it."""
        self.put_off(copy)
        self._copies.add(copy.task_id)

    def _taken_over(self, task_id: TaskId) -> Database | None:
        """Return the database that the copy of a task has left. Close one that the task has left,
        which may have rows that are not committed, and stores in memory, which begin empty."""
        found = self._closing[task_id].database if task_id in self._copies else None
        if found is None or isinstance(found, StoresInMemory):
            self._finish(task_id)
            return None
        self._copies.discard(task_id)
        del self._closing[task_id]
        return found

    def close_one(self) -> None:
        """Close one of the databases that are left."""
        self._finish(next(iter(self._closing)))

    def close_rest(self) -> None:
        """Close all databases that are left."""
        while self._closing:
            self.close_one()

    def _finish(self, task_id: TaskId) -> None:
        self._copies.discard(task_id)
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
