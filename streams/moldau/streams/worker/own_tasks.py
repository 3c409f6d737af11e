"""The tasks of a worker: opened, restored and closed as partitions come and go.

Invariants: a task is in `tasks` from its making to its closing; only a task with restored stores is
RUNNING. Whether a task is committed, reverted or rebuilt is decided elsewhere (`Decisions`).

To open a database takes up to a tenth of a second on a busy disk, and nothing else of the process
runs meanwhile. So at most a few databases are opened in one turn: tasks that stay here go on
between them, and those that have come do not wait for the last one. A task that is not opened yet
is in `unopened`, and its inputs are paused. Databases are closed one by one, beside the turns.

The directories of tasks that went to other workers are deleted after they were unused for long. A
task that comes back within `state.cleanup.delay.ms` finds its stores; after that it would have to
read most of its changelogs anyway.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from moldau.errors import without_frames
from moldau.runtime import Runtime
from moldau.runtime.files import Files
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.problems import UnfitTopic, outgrown
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import StoreCorrupted
from moldau.streams.worker import restore
from moldau.streams.worker.committer import CommittedOffset
from moldau.streams.worker.decisions import TaskRestart
from moldau.streams.worker.door import Door, TopicFacts, TopicPartition
from moldau.streams.worker.migrations import Migrations
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.task_maker import TaskMaker, forget_frames
from moldau.streams.worker.tasks import (
    TaskId,
    TaskState,
    WorkerTask,
    changelogs_of,
    tasks_of,
    written_changelogs,
)

RESTORE_POLL_S: Final = 0.1
_BESIDE_POLL_S: Final = 0.005
_OPEN_S: Final = 0.25
"""A turn opens databases for so long if no tasks run, and one in any case."""
_OPEN_BESIDE_S: Final = 0.05
"""The same beside tasks that run."""

_TASK: Final = re.compile(r"\d+_\d+")


class _Ingredients(NamedTuple):
    """What a task is made from."""

    program: Program
    inputs: tuple[TopicPartition, ...]
    committed: Mapping[TopicPartition, CommittedOffset]


class OwnTasks:
    """The tasks of one worker."""

    def __init__(
        self,
        plan: Plan,
        door: Door,
        maker: TaskMaker,
        migrations: Migrations,
        beside: tuple[Gate, Runtime, Reports],
    ) -> None:
        self._plan = plan
        self._door = door
        self._maker = maker
        self._migrations = migrations
        self._gate, self._runtime, self._reports = beside
        self._cache_bytes = 0
        self.tasks: dict[TaskId, WorkerTask] = {}
        self.unopened: dict[TaskId, _Ingredients] = {}
        self._ends: Mapping[TopicPartition, tuple[int, int]] = {}
        """Where the changelogs of the tasks that came last begin and end."""
        self.topics: dict[str, TopicFacts] = {}

    def begin(self, topics: dict[str, TopicFacts], cache_bytes: int) -> None:
        """Set what tasks are made with. `cache_bytes` is shared by all stores of the worker."""
        self.topics = topics
        self._cache_bytes = cache_bytes

    def of(self, state: TaskState) -> list[WorkerTask]:
        """Return the tasks in this state."""
        return [each for each in self.tasks.values() if each.state is state]

    @property
    def are_running(self) -> bool:
        """Whether all tasks run."""
        return not self.unopened and all(
            each.state is TaskState.RUNNING for each in self.tasks.values()
        )

    def directories(self) -> Sequence[TaskId]:
        """Return the tasks whose directories are used, or are about to be."""
        return (*self.tasks, *self.unopened, *self._maker.closing)

    def mark_ends(self) -> None:
        """Note in the running tasks which inputs are at their ends."""
        running = self.of(TaskState.RUNNING)
        at_end = self._door.at_end(where for task in running for where in task.inputs)
        for task in running:
            for where in task.inputs:
                task.task.set_at_end(where.topic, where in at_end)

    def with_input(self, where: TopicPartition) -> WorkerTask | None:
        """Return the task that reads this partition."""
        for task in self.tasks.values():
            if where in task.inputs:
                return task
        return None

    def pace(self, task: WorkerTask, limit: int) -> None:
        """Pause the inputs of which more records than the limit wait in a task, and resume those of
        which it has caught up."""
        for where in task.inputs:
            count = task.task.buffered(where.topic)
            if count > limit and where not in task.paused:
                task.paused.add(where)
                self._door.pause([where])
            elif count <= limit // 2 and where in task.paused:
                task.paused.discard(where)
                self._door.resume([where])

    # Making

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Take over partitions: all with an eager assignor, new ones with a cooperative one. Tasks
        whose stores turn out to be damaged have a `damage`."""
        self._door.forget_ends()
        kept = {
            where
            for task in self.tasks.values()
            if task.state is not TaskState.SUSPENDED
            for where in task.inputs
        }
        kept.update(where for each in self.unopened.values() for where in each.inputs)
        wanted = tasks_of(self._plan, kept | set(partitions))
        here = {*self.tasks, *self.unopened}
        taken_over = {each: what for each, what in wanted.items() if each not in here}
        # Before offsets of changelogs are requested: one that does not exist is waited for.
        for task_id, (program, inputs) in taken_over.items():
            await self._require_changelogs(task_id, program, inputs)
        await self._door.end_abandoned(
            [
                where
                for task_id, (program, _) in taken_over.items()
                for where in written_changelogs(program, task_id.partition)
            ]
        )
        committed = await self._door.committed(
            [where for _, inputs in wanted.values() for where in inputs]
        )
        await self._sort_out(wanted, committed)
        self.unopened = {
            task_id: _Ingredients(program, inputs, committed)
            for task_id, (program, inputs) in wanted.items()
            if task_id not in self.tasks
        }
        self._reports.assigned(wanted)
        await self._learn_ends()
        await self._open_some()

    async def _learn_ends(self) -> None:
        """Learn the ends of the changelogs of all tasks that are to be opened."""
        changelogs = [
            where
            for task_id, each in self.unopened.items()
            for where in changelogs_of(each.program, task_id.partition)
        ]
        if changelogs:
            changelogs += self._migrations.sources()
        self._ends = await self._door.ends(changelogs)
        await self._migrations.learn(self._ends)

    async def _open_some(self) -> None:
        """Make some of the tasks that are not opened yet, and begin to restore them. Those whose
        stores turn out to be damaged have a `damage`."""
        clock = self._runtime.clock
        opened: list[WorkerTask] = []
        committed: dict[TopicPartition, CommittedOffset] = {}
        until = clock.monotonic() + (_OPEN_BESIDE_S if self.of(TaskState.RUNNING) else _OPEN_S)
        while self.unopened and (not opened or clock.monotonic() < until):
            task_id = next(iter(self.unopened))
            await self._maker.settled(task_id)
            program, inputs, known = self.unopened.pop(task_id)
            task = await self._gate.run(self._maker.make, task_id, program, inputs, known)
            self.tasks[task_id] = task
            opened.append(task)
            committed.update((where, known[where]) for where in inputs if where in known)
        self._share_cache()
        await self._begin_restoring(opened, committed)

    def forget(self, partitions: Sequence[TopicPartition] | None = None) -> None:
        """Do not open the tasks with these inputs, or any, which belong to others now."""
        for task_id, each in list(self.unopened.items()):
            if partitions is None or not set(each.inputs).isdisjoint(partitions):
                del self.unopened[task_id]

    async def _require_changelogs(
        self, task_id: TaskId, program: Program, inputs: Sequence[TopicPartition]
    ) -> None:
        """Raise TopologyError if an input has got more partitions than what it meets by key."""
        needed = task_id.partition + 1
        for store in program.stores:
            topic = store.changelog(program.app)
            if topic is None or self.topics[topic].partitions >= needed:
                continue
            self.topics |= await self._door.topics([topic])
            count = self.topics[topic].partitions
            if count < needed and store.source_topic is not None:
                raise outgrown(program.app, [where.topic for where in inputs], topic)
            if count < needed:
                raise UnfitTopic(topic, count, needed)

    async def make_again(self, again: Sequence[TaskRestart]) -> None:
        """Make tasks again as the last commit left them. Input is read again from the committed
        offsets; without one, from where the task began."""
        inputs = [where for each in again for where in each.inputs]
        origins = {where: at for each in again for where, at in each.origins.items()}
        committed = await self._door.committed(inputs)
        for where in inputs:
            if where in committed:
                self._door.seek(where, committed[where].offset)
            elif where in origins:
                self._door.seek(where, origins[where])
        await self.assign(inputs)

    def _share_cache(self) -> None:
        """Divide the cache limit equally among all stores of all tasks here."""
        stores = sum(len(task.program.stores) for task in self.tasks.values())
        stores += len(self._plan.global_tables)
        for task in self.tasks.values():
            task.task.limit_cache(self._cache_bytes // max(1, stores))

    async def _sort_out(
        self,
        wanted: Mapping[TaskId, tuple[Program, tuple[TopicPartition, ...]]],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        """Close the tasks that are no longer here, and those that another worker has run in
        between, which this worker may not know; resume the others."""
        suspended = self.of(TaskState.SUSPENDED)
        changelogs = [where for task in suspended for where in task.changelogs()]
        ends = await self._door.ends(changelogs)
        marked = await self._marked(changelogs)
        gone = [
            task_id
            for task_id, task in self.tasks.items()
            if task_id not in wanted
            or wanted[task_id][1] != task.inputs
            or (task in suspended and not restore.is_current(task, committed, ends, marked))
        ]
        await self.close(gone, is_put_off=True)
        for task in self.of(TaskState.SUSPENDED):
            self._take_up(task)

    async def _marked(self, changelogs: Sequence[TopicPartition]) -> frozenset[TopicPartition]:
        """Return the changelogs that may end with the marker of the worker's own transaction."""
        if not self._door.committer.is_atomic:
            return frozenset()
        return await self._door.without_open_transactions(changelogs)

    def _take_up(self, task: WorkerTask) -> None:
        """Resume a task that is still here after a rebalance.

        Its buffered records are not fetched again, though the consumer would continue at the
        committed offsets.
        """
        for where, offset in task.fetched.items():
            self._door.seek(where, offset)
        task.versions_fit = not self._migrations.are_left(task)
        is_complete = task.is_restored and task.versions_fit
        task.state = TaskState.RUNNING if is_complete else TaskState.RESTORING
        task.paused.clear()

    # Closing

    async def close(self, task_ids: Sequence[TaskId], *, is_put_off: bool = False) -> None:
        """Close tasks, their databases perhaps later. What is not committed of them is dropped."""
        gone = [self.tasks.pop(task_id) for task_id in task_ids]
        for task in gone:
            if task.damage is not None:
                forget_frames(task.damage)
            is_later = is_put_off and task.damage is None
            await self._gate.run(self._maker.put_off if is_later else WorkerTask.close, task)
        if any(not each.is_done for task in gone for each in task.restoring.values()):
            await self._follow_changelogs()

    async def pass_markers(self) -> bool:
        """Move the stores of suspended tasks over the markers of the last commit. Return whether
        all are there. Other workers may run the tasks by now."""
        tasks = self.of(TaskState.SUSPENDED)
        changelogs = [where for task in tasks for where in task.changelogs()]
        if not changelogs or not self._door.committer.is_atomic:
            return True
        marked = await self._door.without_open_transactions(changelogs)
        ends = await self._door.ends(changelogs)
        for task in tasks:
            await self._gate.run(restore.pass_markers, task, ends, marked, self.topics)
        return marked.issuperset(changelogs)

    async def close_all(self) -> None:
        """Close all tasks."""
        self.forget()
        await self.close(list(self.tasks))
        try:
            await self._maker.all_settled()
        finally:
            await self._gate.run(self._maker.close_rest)
        await self._door.changelogs.aclose()

    # Restoring

    async def _begin_restoring(
        self, tasks: Sequence[WorkerTask], committed: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        for task in tasks:
            self._migrations.check(task.task_id, task.program)
            try:
                cleared = await self._gate.run(
                    restore.begin, task, self._ends, self.topics, committed
                )
                self._reports.restoring(task, cleared)
                await self._settle(task)
            except StoreCorrupted as error:
                task.damage = without_frames(error)
        await self._follow_changelogs()
        waiting = [where for task in self.of(TaskState.RESTORING) for where in task.inputs]
        waiting += [where for each in self.unopened.values() for where in each.inputs]
        self._door.pause(sorted(waiting))

    def to_migrate(self) -> WorkerTask | None:
        """Return a restored task with stores that have values of earlier versions."""
        left = (each for each in self.of(TaskState.RESTORING) if each.is_restored)
        return next((each for each in left if self._migrations.are_left(each)), None)

    async def migrate(self, task: WorkerTask) -> None:
        """Bring some rows of a task to the version that the app declares, in a transaction of their
        own. Nothing else may be in the open one. If its stores are damaged it has a `damage`."""
        try:
            await self._migrations.advance(task, self.topics)
            await self._settle(task)
        except StoreCorrupted as error:
            task.damage = without_frames(error)
            raise

    async def _follow_changelogs(self) -> None:
        await self._door.changelogs.read_from(restore.open_offsets(self.tasks.values()))

    async def _settle(self, task: WorkerTask) -> None:
        task.versions_fit = not self._migrations.are_left(task)
        if task.is_restored and task.versions_fit:
            await self._gate.run(restore.finish, task)
            task.state = TaskState.RUNNING
            self._door.resume(task.inputs)
            self._reports.restored(task)

    @property
    def are_restoring(self) -> bool:
        """Whether tasks wait for their stores."""
        return bool(self.unopened or self.of(TaskState.RESTORING))

    async def advance(self) -> None:
        """Bring the tasks that wait for their stores on, and close a database that is left."""
        if self.are_restoring:
            await self.restore()
        now_s = self._runtime.clock.monotonic()
        await self._maker.close_beside(now_s, self._runtime.run_blocking)

    async def restore(self) -> None:
        """Open stores, and read the changelogs of the tasks that are restored."""
        if self.unopened:
            await self._open_some()
            for each in self.tasks.values():
                if each.damage is not None:
                    raise without_frames(each.damage)
        by_changelog = {
            where: task
            for task in self.of(TaskState.RESTORING)
            for where, each in task.restoring.items()
            if not each.is_done
        }
        if not by_changelog:
            return
        # Tasks that run, or could be opened, do not wait for a changelog with nothing to read now.
        is_alone = not self.unopened and not self.of(TaskState.RUNNING)
        wait_s = RESTORE_POLL_S if is_alone else _BESIDE_POLL_S
        for fetched in await self._door.changelogs.read(wait_s):
            task = by_changelog.get(fetched.where)
            if task is not None:
                facts = self.topics[fetched.where.topic]
                count = await self._gate.run(restore.apply, task, fetched, facts)
                self._reports.restored_records(task, fetched.where, count)
        for where, task in by_changelog.items():
            reached = self._door.changelogs.position(where)
            if reached > task.restoring[where].position:
                facts = self.topics[where.topic]
                await self._gate.run(restore.advance, task, where, reached, facts)
        for task in self.of(TaskState.RESTORING):
            await self._settle(task)
        if any(task.restoring[where].is_done for where, task in by_changelog.items()):
            await self._follow_changelogs()


class StaleTasks:
    """The unused task directories of one worker. `delay_s` is how long one is kept."""

    def __init__(self, tasks_path: str, files: Files, delay_s: float) -> None:
        self._path = tasks_path
        self._files = files
        self._delay_s = delay_s
        self._since: dict[str, float] = {}
        self._look_at_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """Whether to look for unused directories now: true a few times in each delay."""
        if now_s < self._look_at_s:
            return False
        self._look_at_s = now_s + max(0.1, min(60.0, self._delay_s / 4))
        return True

    def clean(self, used: Set[str], now_s: float, deleted: Callable[[str], None]) -> None:
        """Delete directories that were unused for the delay; call `deleted` for each."""
        if not self._files.exists(self._path):
            return
        found = {name for name in self._files.list(self._path) if _TASK.fullmatch(name)}
        unused = found - used
        self._since = {name: self._since.get(name, now_s) for name in sorted(unused)}
        for name, since in list(self._since.items()):
            if now_s - since >= self._delay_s:
                self._files.remove_tree(posixpath.join(self._path, name))
                del self._since[name]
                deleted(name)
