"""The worker's shell: one loop that polls, restores, processes, and commits.

Records are processed on a thread of the runtime while the event loop continues, so that a slow
function of the user does not delay heartbeats to the group. Only one thread at a time works on the
tasks, and nothing else touches them meanwhile.

A rebalance happens inside `poll`: revoked tasks are committed and suspended, because most of them
come back at once; those that do not come back are closed when the new partitions are known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.streams.plan.plan import Plan
from moldau.streams.query.shell import Gate
from moldau.streams.rocks import RocksMemory, StoreCorrupted, TaskDatabase
from moldau.streams.starting.shell import prepare
from moldau.streams.worker import restore
from moldau.streams.worker import settings as rows
from moldau.streams.worker.commit import commit
from moldau.streams.worker.door import (
    CommitLater,
    Committed,
    Door,
    MembershipLost,
    Rebalance,
    TopicFacts,
    TopicPartition,
)
from moldau.streams.worker.global_tables import GlobalTables
from moldau.streams.worker.inputs import GONE_S, LOOK_S, InputWatch
from moldau.streams.worker.metrics import WorkerMetrics
from moldau.streams.worker.queries import Queries
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.settings import AppSettings
from moldau.streams.worker.stale_tasks import StaleTasks
from moldau.streams.worker.state_directory import StateDirectory
from moldau.streams.worker.tasks import (
    Database,
    MakeTask,
    OpenDatabase,
    TaskId,
    TaskState,
    WorkerTask,
    store_kinds,
    tasks_of,
)

if TYPE_CHECKING:
    from moldau.streams.plan.plan import Program

_SLICES: Final = 10
"""At most this many slices of a task are processed before the others have their turn."""
_RESTORE_POLL_S: Final = 0.1
_LEARN_ENDS_S: Final = 0.5
_TOPIC_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Worker:
    """Runs its share of the tasks of a plan until it is stopped."""

    def __init__(
        self,
        plan: Plan,
        make_task: MakeTask,
        settings: AppSettings,
        directory: StateDirectory,
        runtime: Runtime,
        reports: Reports,
    ) -> None:
        self._plan = plan
        self._make_task = make_task
        self._settings = settings.own
        self._directory = directory
        self._runtime = runtime
        self._reports = reports
        self._gate = Gate(runtime)
        self._door = Door(settings, plan.app, directory.member, runtime)
        self._open_database = directory.open_database or self._rocks_opener()
        tables = len(plan.global_tables) + sum(len(each.stores) for each in plan.programs)
        self._globals = GlobalTables(
            plan.global_tables,
            self._door,
            self._gate,
            runtime.files,
            reports,
            self._settings[rows.cache_max_bytes] // max(1, tables),
        )
        self.tasks: dict[TaskId, WorkerTask] = {}
        self.queries = Queries(plan, self._gate, self.tasks, self._globals, self._door.owners)
        self.metrics = WorkerMetrics(self.tasks, self._gate, self._door.lag)
        self._stale = StaleTasks(
            directory.of_tasks(),
            runtime.files,
            self._settings[rows.state_cleanup_delay_ms] / 1000,
        )
        self._topics: dict[str, TopicFacts] = {}
        self._watch = InputWatch(plan.app, ())
        self._commit_at = 0.0
        self._purge_at = 0.0
        self._learn_ends_at = 0.0
        self._has_more = False
        self._is_stopping = False

    def _rocks_opener(self) -> OpenDatabase:
        memory = RocksMemory(
            self._settings[rows.rocksdb_cache_bytes],
            self._settings[rows.rocksdb_write_buffer_bytes],
        )
        files = self._runtime.files
        return lambda path, stores: TaskDatabase.open(path, stores, memory, files)

    async def run(self) -> None:
        """Run until cancelled; then commit, leave the group and return."""
        work = self._runtime.spawn(self._work(), name="streams-worker", reported=False)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._is_stopping = True
            await work

    async def _work(self) -> None:
        async with AsyncExitStack() as left:
            await self._door.start()
            left.callback(self._gate.close)
            left.push_async_callback(self._door.aclose)
            left.push_async_callback(self._globals.aclose)
            left.push_async_callback(self._close_all)
            await self._prepare()
            while not self._is_stopping:
                try:
                    await self._turn()
                except KafkaError as error:
                    if error.code in _TOPIC_GONE:
                        # Records of this turn may be lost, so no other turn follows.
                        now = self._runtime.clock.monotonic()
                        self._watch.doubt(now)
                        await self._check_inputs(until=now + 2 * GONE_S)
                    raise
            await self._commit_all(self._of(TaskState.RUNNING))

    async def _prepare(self) -> None:
        start = await prepare(
            self._plan,
            self._door,
            self._reports,
            lambda: self._is_stopping,
            accepts_changes=self._settings[rows.accept_topology_changes],
        )
        self._topics = start.topics
        self._watch = InputWatch(self._plan.app, start.layout.inputs())
        if self._plan.global_tables:
            await self._globals.start(
                self._open_database, self._directory.of_globals(), self._topics
            )
            await self._globals.restore(lambda: self._is_stopping)
        rebalance = Rebalance(self._assigned, self._revoked, self._lost)
        self.queries.widths = start.layout.counts
        await self._door.subscribe(self._watch.inputs, rebalance)
        self._reports.started(self._watch.inputs)
        self._schedule_commit()

    # One turn of the loop

    async def _turn(self) -> None:
        await self._check_inputs()
        try:
            await self._poll_and_process()
        except StoreCorrupted as error:
            if not await self._heal(error):
                raise
            return
        if (damage := self._gate.damage) is not None:
            self._gate.damage = None
            await self._heal(damage)
            return
        running = self._of(TaskState.RUNNING)
        for task in running:
            await self._send(task)
            self._press(task)
        if self._is_commit_due(running):
            for damaged in await self._commit(running):
                await self._make_anew(damaged)
        now = self._runtime.clock.monotonic()
        if self._stale.is_due(now):
            used = {str(task_id) for task_id in self.tasks}
            await self._gate.run(self._stale.clean, used, now, self._reports.deleted)

    async def _check_inputs(self, until: float = 0.0) -> None:
        """Look whether inputs are there if it is time to, and until a moment as long as they may be
        gone. Raise InputDeleted if they are."""
        while True:
            now = self._runtime.clock.monotonic()
            if self._watch.is_due(now):
                there = await existing(self._door, self._watch.inputs)
                now = self._runtime.clock.monotonic()
                self._watch.on_look(there, now)
            if self._is_stopping or not self._watch.is_doubted or now >= until:
                return
            await asyncio.sleep(_RESTORE_POLL_S)

    async def _poll_and_process(self) -> None:
        is_restoring = bool(self._of(TaskState.RESTORING))
        fetched = await self._door.poll(0.0 if is_restoring else self._wait_s())
        for where, chunk in fetched:
            task = self._task_of(where)
            if task is not None:  # a rebalance may have taken it away in the same poll
                task.task.add(where.topic, chunk)
                task.fetched[where] = chunk.next_offset
        if self._plan.global_tables:
            await self._globals.read()
        if is_restoring:
            await self._restore()
        running = self._of(TaskState.RUNNING)
        await self._learn_ends(running)
        for task in running:
            for where in task.inputs:
                task.task.set_at_end(where.topic, self._door.is_at_end(where))
        self._has_more = await self._gate.run(self._process, running)
        self._has_more |= await self._await_calls(running)

    async def _learn_ends(self, running: Sequence[WorkerTask]) -> None:
        now = self._runtime.clock.monotonic()
        if now >= self._learn_ends_at:
            self._learn_ends_at = now + _LEARN_ENDS_S
            await self._door.learn_ends([where for task in running for where in task.inputs])

    def _wait_s(self) -> float:
        if self._has_more:
            return 0.0
        longest_s = self._settings[rows.poll_ms] / 1000
        if not any(each.is_touched for each in self.tasks.values()):
            return longest_s
        return max(0.0, min(longest_s, self._commit_at - self._runtime.clock.monotonic()))

    def _process(self, tasks: Sequence[WorkerTask]) -> bool:
        """Process records and run timers, on a thread. Return whether there is more to process."""
        clock = self._runtime.clock
        has_more = False
        for task in tasks:
            for _ in range(_SLICES):
                begun = clock.monotonic()
                count = task.task.process(clock.wall_ms(), task.slice)
                if not count:
                    break
                task.processed += count
                task.is_touched = True
                seconds = clock.monotonic() - begun
                task.seconds += seconds
                task.fit_slice(seconds)
                self._gate.answer()
            else:
                has_more = True
            task.task.punctuate(clock.wall_ms())
        return has_more

    async def _await_calls(self, tasks: Sequence[WorkerTask]) -> bool:
        """Await the app's async functions, of all tasks at once. Return whether there were any.

        A task takes no more records until its calls have ended, so no offset passes them.
        """
        calls = [call for task in tasks for call in task.task.take_calls()]
        coroutines = (call.coroutine for call in calls)
        results = await asyncio.gather(*coroutines, return_exceptions=True)
        for call, result in zip(calls, results, strict=True):
            if isinstance(result, Exception):
                call.finish(None, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                call.finish(result)
        return bool(calls)

    async def _send(self, task: WorkerTask) -> None:
        for outputs in task.task.take_outputs():
            task.is_touched = True
            await self._door.send(outputs)

    def _press(self, task: WorkerTask) -> None:
        """Pause partitions that a task does not keep up with, and resume them when it does."""
        limit = self._settings[rows.buffered_records]
        for where in task.inputs:
            count = task.task.buffered(where.topic)
            if count > limit and where not in task.paused:
                task.paused.add(where)
                self._door.pause([where])
            elif count <= limit // 2 and where in task.paused:
                task.paused.discard(where)
                self._door.resume([where])

    # Commits

    def _schedule_commit(self) -> None:
        interval_s = self._settings[rows.commit_interval_ms] / 1000
        self._commit_at = self._runtime.clock.monotonic() + interval_s

    def _is_commit_due(self, tasks: Sequence[WorkerTask]) -> bool:
        if self._runtime.clock.monotonic() >= self._commit_at:
            return True
        if any(each.task.wants_commit() for each in tasks):
            return True
        most = self._settings[rows.uncommitted_bytes_max]
        return any(each.uncommitted_bytes() > most for each in tasks)

    async def _commit(self, tasks: Sequence[WorkerTask]) -> list[WorkerTask]:
        """Commit these tasks. Return those whose stores were found damaged; they are closed."""
        self._schedule_commit()
        ids = {name: facts.topic_id for name, facts in self._topics.items()}
        begun = self._runtime.clock.monotonic()
        try:
            await commit(tasks, self._door, self._gate, ids)
        except CommitLater as error:
            self._reports.commit_later(str(error))
            return await self._set_aside(tasks)
        except MembershipLost as error:
            self._reports.membership_lost(str(error))
            await self._set_aside(tasks)
            await self._close(list(self.tasks))
            return []
        self.metrics.commit_duration.observe(self._runtime.clock.monotonic() - begun)
        damaged = await self._set_aside(tasks)
        if self._plan.global_tables:
            await self._globals.commit()
        await self._purge(tasks)
        return damaged

    async def _commit_all(self, tasks: Sequence[WorkerTask]) -> None:
        """Commit tasks that are about to go, including what only the clock has changed in them."""
        for task in tasks:
            task.is_touched = True
        await self._commit(tasks)

    async def _purge(self, tasks: Sequence[WorkerTask]) -> None:
        now = self._runtime.clock.monotonic()
        if now < self._purge_at:
            return
        self._purge_at = now + self._settings[rows.repartition_purge_interval_ms] / 1000
        own = {topic.name for topic in self._plan.repartitions}
        await self._door.purge(
            {
                TopicPartition(topic, task.task_id.partition): offset
                for task in tasks
                for topic, offset in task.committed.items()
                if topic in own
            }
        )

    # Rebalances

    async def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        tasks = [
            each for each in self.tasks.values() if not set(each.inputs).isdisjoint(partitions)
        ]
        await self._commit_all([each for each in tasks if each.state is TaskState.RUNNING])
        for task in tasks:
            if task.state is not TaskState.CLOSED:
                task.state = TaskState.SUSPENDED

    async def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._close(
            [
                task_id
                for task_id, task in self.tasks.items()
                if not set(task.inputs).isdisjoint(partitions)
            ]
        )

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Take over partitions: all with an eager assignor, new ones with a cooperative one."""
        self._door.forget_ends()
        kept = {
            where
            for task in self.tasks.values()
            if task.state is not TaskState.SUSPENDED
            for where in task.inputs
        }
        wanted = tasks_of(self._plan, kept | set(partitions))
        committed = await self._door.committed(
            [where for _, inputs in wanted.values() for where in inputs]
        )
        await self._sort_out(wanted, committed)
        new = {task_id: what for task_id, what in wanted.items() if task_id not in self.tasks}
        for task_id, (program, inputs) in new.items():
            self.tasks[task_id] = await self._gate.run(
                self._make, task_id, program, inputs, committed
            )
        self._share_cache()
        self._watch.doubt(self._runtime.clock.monotonic())
        await self._begin_restoring([self.tasks[task_id] for task_id in new], committed)
        self._reports.assigned(self.tasks.values())

    def _share_cache(self) -> None:
        """Divide the cache limit equally among all stores of all tasks here."""
        stores = sum(len(task.program.stores) for task in self.tasks.values())
        stores += len(self._plan.global_tables)
        for task in self.tasks.values():
            task.task.limit_cache(self._settings[rows.cache_max_bytes] // max(1, stores))

    async def _sort_out(
        self,
        wanted: Mapping[TaskId, tuple[Program, tuple[TopicPartition, ...]]],
        committed: Mapping[TopicPartition, Committed],
    ) -> None:
        """Close the tasks that are no longer here, and those that another worker has run in
        between, which this worker may not know; resume the others."""
        suspended = self._of(TaskState.SUSPENDED)
        ends = await self._door.ends([where for task in suspended for where in task.changelogs()])
        gone = [
            task_id
            for task_id, task in self.tasks.items()
            if task_id not in wanted
            or wanted[task_id][1] != task.inputs
            or (task in suspended and not restore.is_current(task, committed, ends))
        ]
        await self._close(gone)
        for task in self._of(TaskState.SUSPENDED):
            self._take_up(task)

    def _take_up(self, task: WorkerTask) -> None:
        """Resume a task that is still here after a rebalance.

        Its buffered records are not fetched again, though the consumer would continue at the
        committed offsets.
        """
        for where, offset in task.fetched.items():
            self._door.seek(where, offset)
        is_restored = all(each.is_done for each in task.restoring.values())
        task.state = TaskState.RUNNING if is_restored else TaskState.RESTORING
        task.paused.clear()

    def _make(
        self,
        task_id: TaskId,
        program: Program,
        inputs: tuple[TopicPartition, ...],
        committed: Mapping[TopicPartition, Committed],
    ) -> WorkerTask:
        """Open the stores of a task and make it; runs on a thread."""
        database = None
        if program.stores:
            database = self._open(task_id, program)
        backings = {}
        if database is not None:
            backings = {store.name: database.backing(store.name) for store in program.stores}
        texts = [committed[where].metadata for where in inputs if where in committed]
        stores = self._globals.stores
        task = self._make_task(program, task_id.partition, backings, texts, stores)
        offsets = {where.topic: committed[where].offset for where in inputs if where in committed}
        return WorkerTask(task_id, program, inputs, task, database, committed=offsets)

    def _open(self, task_id: TaskId, program: Program) -> Database:
        path, files = self._directory.of_task(str(task_id)), self._runtime.files
        kinds = store_kinds(program.stores)
        try:
            return self._open_database(path, kinds)
        except StoreCorrupted as error:
            self._reports.damaged(str(task_id), str(error), TaskDatabase.set_aside(path, files))
            return self._open_database(path, kinds)

    async def _close(self, task_ids: Sequence[TaskId]) -> None:
        gone = [self.tasks.pop(task_id) for task_id in task_ids]
        for task in gone:
            await self._gate.run(task.close)
        if any(not each.is_done for task in gone for each in task.restoring.values()):
            await self._follow_changelogs()

    async def _close_all(self) -> None:
        await self._close(list(self.tasks))
        await self._door.changelogs.aclose()

    # Restoring

    async def _begin_restoring(
        self, tasks: Sequence[WorkerTask], committed: Mapping[TopicPartition, Committed]
    ) -> None:
        ends = await self._door.ends([where for task in tasks for where in task.changelogs()])
        for task in tasks:
            try:
                cleared = await self._gate.run(restore.begin, task, ends, self._topics, committed)
            except StoreCorrupted as error:
                task.damage = error
                continue
            self._reports.restoring(task, cleared)
            self._settle(task)
        for damaged in await self._set_aside(tasks):
            await self._make_anew(damaged)
        await self._follow_changelogs()
        waiting = [where for task in self._of(TaskState.RESTORING) for where in task.inputs]
        self._door.pause(sorted(waiting))

    async def _follow_changelogs(self) -> None:
        await self._door.changelogs.read_from(restore.open_offsets(self.tasks.values()))

    def _settle(self, task: WorkerTask) -> None:
        if all(each.is_done for each in task.restoring.values()):
            task.state = TaskState.RUNNING
            self._door.resume(task.inputs)
            self._reports.restored(task)

    async def _restore(self) -> None:
        by_changelog = {
            where: task
            for task in self._of(TaskState.RESTORING)
            for where, each in task.restoring.items()
            if not each.is_done
        }
        if not by_changelog:
            return
        for fetched in await self._door.changelogs.read(_RESTORE_POLL_S):
            task = by_changelog.get(fetched.where)
            if task is not None:
                facts = self._topics[fetched.where.topic]
                count = await self._gate.run(restore.apply, task, fetched, facts)
                self._reports.restored_records(task, fetched.where, count)
        for where, task in by_changelog.items():
            reached = self._door.changelogs.position(where)
            if reached > task.restoring[where].position:
                facts = self._topics[where.topic]
                await self._gate.run(restore.advance, task, where, reached, facts)
        for task in self._of(TaskState.RESTORING):
            self._settle(task)
        if any(task.restoring[where].is_done for where, task in by_changelog.items()):
            await self._follow_changelogs()

    # Damage

    async def _heal(self, error: StoreCorrupted) -> bool:
        """Rebuild what uses the damaged database. Return whether anything here does."""
        path = str(error.context["path"])
        if self._globals.has(path):
            _forget_frames(error)
            await self._globals.heal(error)
            return True
        for task in self.tasks.values():
            if task.database is not None and task.database.path == path:
                task.damage = error
        found = await self._set_aside(list(self.tasks.values()))
        for damaged in found:
            await self._make_anew(damaged)
        return bool(found)

    async def _set_aside(self, tasks: Sequence[WorkerTask]) -> list[WorkerTask]:
        """Close the damaged tasks, rename their files, and return the tasks."""
        damaged = [each for each in tasks if each.damage is not None]
        for task in damaged:
            assert task.damage is not None
            assert task.database is not None
            _forget_frames(task.damage)
            await self._close([task.task_id])
            aside = TaskDatabase.set_aside(task.database.path, self._runtime.files)
            self._reports.damaged(str(task.task_id), str(task.damage), aside)
        return damaged

    async def _make_anew(self, damaged: WorkerTask) -> None:
        """Make a task again from its changelogs. Input is read again from the committed offsets."""
        inputs = damaged.inputs
        committed = await self._door.committed(inputs)
        for where in inputs:
            begins, _ = (await self._door.ends([where]))[where]
            self._door.seek(where, committed[where].offset if where in committed else begins)
        await self._assigned(inputs)

    def _of(self, state: TaskState) -> list[WorkerTask]:
        return [each for each in self.tasks.values() if each.state is state]

    def _task_of(self, where: TopicPartition) -> WorkerTask | None:
        for task in self.tasks.values():
            if where in task.inputs:
                return task
        return None


async def existing(door: Door, topics: Sequence[str]) -> Mapping[str, TopicFacts] | None:
    """Return those of the topics that exist; None if the cluster does not say at once."""
    try:
        async with asyncio.timeout(LOOK_S):
            return await door.topics(topics)
    except (KafkaError, TimeoutError):
        return None


def _forget_frames(error: StoreCorrupted) -> None:
    """Drop the frames of an error: they hold iterators, and with them the database."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
