"""The worker's shell: one loop that polls, restores, processes, and commits.

Records are processed on a thread of the runtime while the event loop continues, so that a slow
function of the user does not delay heartbeats to the group. Only one thread at a time works on the
tasks, and nothing else touches them meanwhile.

A rebalance happens inside `poll`: revoked tasks are committed and suspended, because most of them
come back at once; those that do not come back are closed when the new partitions are known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from typing import Final

from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.streams.plan.misplaced import KeySample
from moldau.streams.plan.placement import placed_inputs
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import InputDeleted, WorkerStopped
from moldau.streams.query.gate import Gate
from moldau.streams.query.lifecycle import OnFailure
from moldau.streams.rocks import RocksMemory, StoreCorrupted, TaskDatabase
from moldau.streams.worker import settings as rows
from moldau.streams.worker.calls import await_calls
from moldau.streams.worker.commit import commit
from moldau.streams.worker.committer import CommitLater, CommitReverted, MembershipLost
from moldau.streams.worker.decisions import (
    GONE_S,
    LOOK_S,
    NOTHING,
    Backlog,
    Decisions,
    InputWatch,
    Ready,
)
from moldau.streams.worker.door import Door, FetchedChunk, Rebalance, TopicFacts, TopicPartition
from moldau.streams.worker.global_tables import GlobalTables
from moldau.streams.worker.handover import Handover
from moldau.streams.worker.kept import KeptTopology
from moldau.streams.worker.lake_tables import LakeTables
from moldau.streams.worker.metrics import TaskFigures, WorkerMetrics
from moldau.streams.worker.migrations import Migrations
from moldau.streams.worker.own_tasks import RESTORE_POLL_S, OwnTasks, StaleTasks
from moldau.streams.worker.queries import Queries
from moldau.streams.worker.reports import Readiness, Reports
from moldau.streams.worker.settings import AppSettings
from moldau.streams.worker.standbys import Standbys
from moldau.streams.worker.start import prepare
from moldau.streams.worker.state_directory import StateDirectory
from moldau.streams.worker.task_maker import TaskMaker, forget_frames
from moldau.streams.worker.tasks import MakeTask, OpenDatabase, TaskState, WorkerTask, writers_of

_SLICES: Final = 10
"""At most this many slices of a task are processed before the others have their turn."""
HAND_OVER_S: Final = 7.0
"""How long a worker that is to stop waits until others have taken its tasks over: a container that
is stopped has ten seconds for all of it."""
_HEARD_S: Final = 30.0
"""How long a worker that ends its app waits until the others have heard it."""
_MARKER_LOOKS: Final = 10
_MARKER_LOOK_S: Final = 0.02
"""How often and how far apart a stopping worker looks for the markers of its last commit."""
_LEARN_ENDS_S: Final = 0.5
_LOOK: Final = Backoff(100, 10_000)
"""The pauses while the coordinator does not describe the group."""
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
        self._lakes = LakeTables(plan.lake_tables, runtime, reports)
        self._maker = TaskMaker(
            make_task,
            directory,
            self._open_database,
            (self._globals.stores, self._lakes.rows),
            (runtime.files, reports),
        )
        beside = (self._gate, runtime, reports)
        self._kept = KeptTopology(plan, self._door, reports, lambda: self._is_stopping)
        migrations = Migrations(self._door, self._kept, beside)
        self._own = OwnTasks(plan, self._door, self._maker, migrations, beside)
        self.standbys = Standbys(
            plan, self._door, self._maker, lambda: self._own.topics, beside, self._kept.sources
        )
        self.tasks = self._own.tasks
        lag = self._door.lag
        self._decisions = Decisions(
            self.tasks,
            is_atomic=self._door.committer.is_atomic,
            interval_s=(settings.commit_interval_ms / 1000, settings.commit_interval_ms_max / 1000),
            uncommitted_bytes_max=self._settings[rows.uncommitted_bytes_max],
            backlog=Backlog(lag),
        )
        self.queries = Queries(
            plan,
            self._gate,
            (self.tasks, self.standbys.tasks),
            self._globals,
            self._door.membership,
            are_committed=self._door.committer.is_atomic,
        )
        self.metrics = WorkerMetrics(self.tasks, self.standbys, self._gate, lag, settings.tracer)
        self.figures = TaskFigures(self.tasks, self.standbys, self._gate, lag)
        self.readiness = Readiness(plan, self.tasks, self._door)
        self._stale = StaleTasks(
            directory.of_tasks(), runtime.files, self._settings[rows.state_cleanup_delay_ms] / 1000
        )
        self._watch, self._keys = InputWatch(plan.app, ()), KeySample({}, {})
        self._purge_at = self._learn_ends_at = 0.0
        self._lookup = NameLookup(self._door, runtime)
        self._handover = Handover(self._door, directory.member, runtime)
        self._has_more = self._is_connected = self._is_leaving = self._is_stopping = False
        self.failure: Exception | None = None

    def _rocks_opener(self) -> OpenDatabase:
        memory = RocksMemory(
            self._settings[rows.rocksdb_cache_bytes],
            self._settings[rows.rocksdb_write_buffer_bytes],
        )
        files = self._runtime.files
        return lambda path, stores: TaskDatabase.open(path, stores, memory, files)

    async def run(self) -> None:
        """Run until cancelled; then let others take the tasks over, commit, leave the group and
        return. Cancelled again, it does not wait for the others. While it waits for its cluster, or
        for what it needs at the start, there is nothing to commit, so it ends at once.
        """
        work = self._runtime.spawn(self._work(), name="streams-worker", reported=False)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            if self._is_connected:
                self._is_leaving = True
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([work], timeout=HAND_OVER_S)
                self._is_stopping = True
                await work
                return
            self._is_stopping = True
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    async def _work(self) -> None:
        async with AsyncExitStack() as left:
            await self._door.start()
            left.callback(self._gate.close)
            left.push_async_callback(self._door.aclose)
            left.push_async_callback(self._globals.aclose)
            left.push_async_callback(self._lakes.aclose)
            left.push_async_callback(self._own.close_all)
            left.push_async_callback(self.standbys.close_all)
            left.push_async_callback(self._lookup.aclose)
            await self._prepare()
            self._is_connected = True
            left.push_async_exit(self._on_failure)
            while not self._is_stopping:
                try:
                    if self._is_leaving and not await self._handover.goes_on():
                        break
                    await self._turn()
                except KafkaError as error:
                    if error.code in _TOPIC_GONE:
                        # Records of this turn may be lost, so no other turn follows.
                        now = self._runtime.clock.monotonic()
                        self._watch.doubt(now)
                        await self._check_inputs(until=now + 2 * GONE_S)
                    if error.code is ErrorCode.FENCED_INSTANCE_ID and self._door.has_own_name:
                        raise self._directory.is_copied() from error
                    raise
            self._is_stopping = True
            await self._commit_all()
            await self.metrics.keep_last()

    async def _on_failure(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        """Do what the app says about a failure. Return whether another worker follows."""
        life = self._reports.life
        if self._is_leaving or not isinstance(error, Exception):
            return False
        choice = None if isinstance(error, InputDeleted | WorkerStopped) else life.choice(error)
        if choice is OnFailure.REPLACE:
            self.failure = without_frames(error)
            return True
        life.fail()
        if choice is OnFailure.STOP_APP:
            await self._door.end_app(_HEARD_S)
        if choice is None:
            return False
        raise WorkerStopped(f"{error}; on_exception says {choice.value}") from error

    async def _prepare(self) -> None:
        start = await prepare(
            self._plan,
            self._door,
            self._reports,
            self._kept,
            partial(self._gate.run, self._maker.has_rows, self._plan),
            accepts_changes=self._settings[rows.accept_topology_changes],
        )
        self._decisions.on_layout(writers_of(start.layout))
        self._own.begin(start.topics, self._settings[rows.cache_max_bytes])
        self.standbys.widths = start.layout.counts
        self._watch = InputWatch(self._plan.app, start.layout.inputs())
        if self._plan.global_tables:
            await self._globals.start(
                self._open_database, self._directory.of_globals(), start.topics
            )
            await self._globals.restore(lambda: self._is_stopping)
        await self._lakes.start()
        rebalance = Rebalance(self._assigned, self._revoked, self._lost)
        self.queries.widths = start.layout.counts
        self._keys = KeySample(placed_inputs(start.layout.plan), start.layout.counts)
        if self._door.is_streams_group:
            await self._door.require_standbys(self._settings[rows.num_standby_replicas])
        self._door.membership.prepare(start.layout, start.topology_epoch)
        await self._door.subscribe(self._watch.inputs, rebalance)
        self._reports.started(self._watch.inputs)
        self._decisions.on_commit_begun(self._runtime.clock.monotonic())

    # One turn of the loop

    async def _turn(self) -> None:
        await self._check_inputs()
        try:
            await self._poll_and_process()
            for task in self._own.of(TaskState.RUNNING):
                await self._send(task)
                self._own.pace(task, self._settings[rows.buffered_records])
        except CommitReverted as error:
            self._on_reverted(error)
        except StoreCorrupted as error:
            self._decisions.on_damage()  # the record that it has stopped is half done
            if not await self._repair(error):
                raise
            await self._decide()
            return
        if (damage := self._gate.damage) is not None:
            self._gate.damage = None
            await self._repair(damage)
            return
        if self._door.membership.is_app_ended:
            raise WorkerStopped(f"app={self._plan.app}: another worker has failed and ends the app")
        self._reports.life.settle(is_running=self._door.is_member and self._own.are_running)
        self._decisions.on_turn(self._runtime.clock.monotonic())
        await self._decide()
        await self._migrate()
        if self._plan.lake_tables:
            self._lakes.look()
            if not any(task.is_touched for task in self._own.of(TaskState.RUNNING)):
                self._lakes.take()
        now = self._runtime.clock.monotonic()
        if self._stale.is_due(now):
            copies = (*self.standbys.tasks, *self.standbys.unopened)
            used = {str(each) for each in (*self._own.directories(), *copies)}
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
            await asyncio.sleep(RESTORE_POLL_S)

    async def _poll_and_process(self) -> None:
        is_restoring = self._own.are_restoring or bool(self.standbys.unopened)
        wait_s = 0.0 if is_restoring else self._wait_s()
        fetched: list[FetchedChunk] = []
        if self._door.has_inputs:
            fetched = await self._door.poll(wait_s)
        else:
            await asyncio.sleep(wait_s)
        if self._door.names.is_superseded:
            raise self._directory.is_copied()
        self._lookup.begin()
        for where, chunk in fetched:
            if (found := self._keys.look(where.topic, where.partition, chunk.keys)) is not None:
                self._reports.misplaced(found)
            task = self._own.with_input(where)
            if task is not None:  # a rebalance may have taken it away in the same poll
                task.add(where, chunk)
        if self._plan.global_tables:
            await self._globals.read()
            if not self.tasks:  # else it is stored with their commits
                await self._globals.commit()
        await self._own.advance()
        await self.standbys.read()
        running = self._own.of(TaskState.RUNNING)
        await self._learn_ends(running)
        self._own.mark_ends()
        if self._reports.life.is_paused:  # what was polled waits in the tasks, and commits go on
            return
        self._has_more = await self._gate.run(self._process, running)
        self._has_more |= await await_calls(running)

    async def _learn_ends(self, running: Sequence[WorkerTask]) -> None:
        now = self._runtime.clock.monotonic()
        if now >= self._learn_ends_at:
            self._learn_ends_at = now + _LEARN_ENDS_S
            await self._door.learn_ends([where for task in running for where in task.inputs])

    def _wait_s(self) -> float:
        if self._has_more and not self._reports.life.is_paused:
            return 0.0
        longest_s = self._settings[rows.poll_ms] / 1000
        if not any(each.is_touched for each in self.tasks.values()):
            return longest_s
        return max(0.0, min(longest_s, self._decisions.commit_at - self._runtime.clock.monotonic()))

    def _process(self, tasks: Sequence[WorkerTask]) -> bool:
        """Process records and run timers, on a thread. Return whether there is more to process."""
        clock = self._runtime.clock
        has_more = False
        for task in tasks:
            for _ in range(_SLICES):
                begun = clock.monotonic()
                limit = 0 if task.is_left_out else task.slice
                try:
                    count = task.task.process(clock.wall_ms(), limit)
                except StoreCorrupted:
                    task.is_touched = True
                    raise
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
            is_unfinished = task.task.is_unfinished()
            task.is_touched |= is_unfinished
            # Its next batch begins after the commit of this turn.
            has_more |= task.is_left_out and not is_unfinished
            task.task.punctuate(clock.wall_ms())
            # What a timer has only stored or requested is committed, too.
            if not task.is_touched:
                task.is_touched = task.task.wants_commit() or task.task.unflushed_bytes() > 0
        return has_more

    async def _send(self, task: WorkerTask) -> None:
        """Send what a task has made. If a transaction may be committed without the task, none of it
        may be in there."""
        is_held = self._door.committer.is_atomic and task.task.may_pause
        for outputs in task.task.take_outputs():
            task.is_touched = True
            if is_held:
                task.hold(outputs)
            else:
                await self._door.committer.send(outputs)

    # Commits, and what they lead to

    async def _decide(self, *, is_last: bool = False) -> None:
        """Do what is to be done now, until nothing is. The last time, what was sent and does not
        count is left to the end of the committer, which aborts it."""
        while True:
            ready = self._decisions.ready()
            if self._decisions.failure is not None:
                raise self._decisions.failure
            if ready == NOTHING:
                return
            if ready.commit:
                await self._commit([self.tasks[each] for each in ready.commit])
                continue
            if ready.revert and not is_last:
                await self._door.committer.revert()
            await self._close(ready)
            for task_id in ready.suspend:
                self.tasks[task_id].state = TaskState.SUSPENDED
            if ready.remake:
                await self._make_again(ready)

    async def _close(self, ready: Ready) -> None:
        closed = [self.tasks[each] for each in ready.close]
        await self._own.close(ready.close)
        of_globals = None
        for task in closed:
            if task.task_id not in ready.set_aside:
                continue
            assert task.damage is not None
            if self._globals.has(str(task.damage.context["path"])):
                of_globals = task.damage  # a commit looks them up too; its own files are sound
            else:
                self._maker.set_aside(task)
        if of_globals is not None:
            forget_frames(of_globals)
            await self._globals.heal(of_globals)

    async def _make_again(self, ready: Ready) -> None:
        await asyncio.sleep(ready.wait_s)
        still = self._door.assigned()
        again = [
            each
            for each in ready.remake
            if each.task_id not in self.tasks and still.issuperset(each.inputs)
        ]
        if again:
            await self._own.make_again(again)
            self._decisions.on_made()

    async def _commit_all(self) -> None:
        """Commit what runs, including what only the clock has changed, and leave the group, before
        databases are closed: their next owners need only the changelogs."""
        for task in self._own.of(TaskState.RUNNING):
            task.is_touched = True
        self._decisions.on_stopping()
        await self._decide(is_last=True)
        for task in self._own.of(TaskState.RUNNING):
            task.state = TaskState.SUSPENDED
        await self._door.leave()
        with suppress(KafkaError):  # the next start reads the markers, then
            for _ in range(_MARKER_LOOKS):
                if await self._own.pass_markers():
                    return
                await asyncio.sleep(_MARKER_LOOK_S)

    async def _commit(self, tasks: Sequence[WorkerTask]) -> None:
        """Commit these tasks, and tell the outcome."""
        begun = self._runtime.clock.monotonic()
        self._decisions.on_commit_begun(begun)
        ids = {name: facts.topic_id for name, facts in self._own.topics.items()}
        with self._telling():
            is_anything = await commit(tasks, self._door.committer, self._gate, ids)
            ended = self._runtime.clock.monotonic()
            self.metrics.commit_duration.observe(ended - begun)
            self._decisions.on_committed(ended, is_anything=is_anything)
            if self._plan.global_tables:
                await self._globals.commit()
            await self._purge(tasks)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell why a commit has failed, if something else is to follow."""
        try:
            yield
        except CommitLater as error:
            self._reports.commit_later(str(error))
            self._decisions.on_commit_later()
        except MembershipLost as error:
            self._reports.membership_lost(str(error))
            self._own.forget()
            self._decisions.on_membership_lost()
        except CommitReverted as error:
            self._on_reverted(error)
        except StoreCorrupted:
            self._decisions.on_damage()

    async def _migrate(self) -> None:
        """Bring some rows of a store to the version that the app declares, if any are left. Not
        while the worker stops: it may not know which version they have."""
        task = None if self._is_stopping else self._own.to_migrate()
        if task is None:
            return
        running = self._own.of(TaskState.RUNNING)
        await self._commit(running)  # what the tasks have sent is in the open transaction
        await self._decide()
        is_next = not self._is_stopping and task is self._own.to_migrate()
        if not is_next or any(each.is_touched and not each.is_left_out for each in running):
            return
        with self._telling():
            await self._own.migrate(task)
        await self._decide()

    def _on_reverted(self, error: CommitReverted) -> None:
        self._reports.reverted(str(error))
        self._decisions.on_reverted(error)
        self._door.names.look()  # another process of this name may have fenced the producer

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
        self._decisions.on_revoked(partitions)
        self._own.forget(partitions)
        for task in self.tasks.values():
            if not set(task.inputs).isdisjoint(partitions):
                # Commit what only the clock has changed in it, too.
                task.is_touched |= task.state is TaskState.RUNNING
        await self._decide()

    async def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._decisions.on_lost(partitions)
        self._own.forget(partitions)
        await self._decide()
        await self.standbys.give_up(self._door.membership.copies())

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        copies = self._door.membership.copies()
        await self.standbys.give_up(copies)
        await self._own.assign(partitions)
        await self.standbys.keep(copies)
        self._watch.doubt(self._runtime.clock.monotonic())
        self._decisions.on_rebalanced()
        await self._decide()

    # Damage

    async def _repair(self, error: StoreCorrupted) -> bool:
        """Rebuild what uses the damaged database. Return whether anything here does."""
        path = str(error.context["path"])
        if self._globals.has(path):
            forget_frames(error)
            await self._globals.heal(error)
            return True
        if self.standbys.on_damage(path, error):
            return True
        damaged = [
            task
            for task in self.tasks.values()
            if task.database is not None and task.database.path == path
        ]
        for task in damaged:
            task.damage = without_frames(error)
        self._decisions.on_damage()
        await self._decide()
        return bool(damaged)


class NameLookup:
    """Describes the group beside the work, as soon as its coordinator answers."""

    def __init__(self, door: Door, runtime: Runtime) -> None:
        self._door = door
        self._runtime = runtime
        self._looking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look if the worker's watch over its name wants it."""
        if self._door.names.wanted is not None and (self._looking is None or self._looking.done()):
            self._looking = self._runtime.spawn(self._look(), name="streams-name")

    async def _look(self) -> None:
        names, failures = self._door.names, 0
        while (epoch := names.wanted) is not None:
            try:
                names.on_described(epoch, await self._door.group())
            except KafkaError:
                failures += 1
                await asyncio.sleep(_LOOK.wait_s(failures, self._runtime.random))

    async def aclose(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])


async def existing(door: Door, topics: Sequence[str]) -> Mapping[str, TopicFacts] | None:
    """Return those of the topics that exist; None if the cluster does not say at once."""
    try:
        async with asyncio.timeout(LOOK_S):
            return await door.topics(topics)
    except (KafkaError, TimeoutError):
        return None
