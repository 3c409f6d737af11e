"""One world from one seed: a broker, three members of an app, a writer, and what torments them.

`Run` is at-least-once, `ExactlyOnceRun` counts everything once.

Safety: lines are written while members are killed, stopped, paused and cut off. Liveness: all is
healed, everything is processed, and the members stop in order. Then each key has been counted at
least as often as its lines were acknowledged, its largest number is the last one, and the store of
each task that ran last is what its changelog makes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, Literal, NamedTuple

from moldau.client import (
    Admin,
    Consumer,
    Deliveries,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
)
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.node import Node
from moldau.runtime.simulated.trace import Fingerprint
from moldau.streams import Streams
from moldau.streams.plan.plan import Plan
from moldau.streams.query.questions import Behind, PositionQuestion, QueryFailed, Range
from moldau.streams.running import make_task, task_settings
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.committer import CommittedOffset, Committer
from moldau.streams.worker.exactly_once import ExactlyOnce
from moldau.streams.worker.reader import FetchedChunk, Reader
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.settings import AT_LEAST_ONCE, EXACTLY_ONCE, AppSettings, app_settings
from moldau.streams.worker.state_directory import StateDirectory
from moldau.streams.worker.tasks import TaskId, TaskState
from moldau.streams.worker.worker import Worker
from moldau.testing import EmbeddedBroker
from tests.streams.simulation.disk import Files

APP: Final = "app"
PORT: Final = 9092
SERVERS: Final = f"broker:{PORT}"
PARTITIONS: Final = 4
ASK_S: Final = 0.3
MEMBERS: Final = 3
KEYS: Final = 20
SAFETY_S: Final = 30.0
LIVENESS_S: Final = 120.0
SHORT_S: Final = 1.0
"""Members are paused and cut off for less than their sessions: one that was taken for dead and
writes on could undo what its successor wrote, and only transactions can keep it from that.
"""
BROKER: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.min.session.timeout.ms": "100",
    "group.streams.min.session.timeout.ms": "100",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "65536",  # an index file reserves 10 MiB else, of memory
}
CLASSIC_GROUP: Final[Mapping[str, object]] = {
    "consumer.session.timeout.ms": 6000,
    "consumer.heartbeat.interval.ms": 300,
}
STREAMS_GROUP: Final[Mapping[str, object]] = {
    "group.protocol": "streams",
    "num.standby.replicas": 1,
}
FAULTS: Final = ("kill", "kill", "pause", "isolate", "stop")
COMMIT_STEPS: Final = ("log", "written", "offsets", "ending", "ended")
"""Where a member is killed in a commit: before the step, and for "ended" before rows are stored."""


def topology() -> Plan:
    app = Streams(APP)
    lines = app.stream("lines", str)
    lines.to("copied")
    keyed = lines.group_by(lambda line: line.split()[0])
    keyed.count(name="counts").changes().to("out")
    keyed.reduce(max, name="largest").changes().to("largest")
    return app.plan()


def draw_settings(random: Random, guarantee: str, of_group: Mapping[str, object]) -> AppSettings:
    interval_ms = random.choice((0, 50, None))
    return app_settings(
        {
            **of_group,
            "bootstrap.servers": SERVERS,
            "processing.guarantee": guarantee,
            **({} if interval_ms is None else {"commit.interval.ms": interval_ms}),
            "buffered.records.per.partition": random.choice((1, 20, 1000)),
            "statestore.cache.max.bytes": random.choice((0, 1 << 20)),
            "repartition.purge.interval.ms": 500,
            "consumer.max.poll.records": random.choice((1, 7, 500)),
            "restore.consumer.max.poll.records": random.choice((3, 500)),
        }
    )


class Change(NamedTuple):
    """A record of a changelog."""

    offset: int
    key: bytes
    value: bytes


class Run:
    """See the module."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.random = world.random("scenario")
        self.happened: Counter[str] = Counter()
        self.settings = draw_settings(self.random, self.guarantee, self.of_group)
        self.plan = topology()
        self.disks = [Files(world.random(f"disk-{index}")) for index in range(MEMBERS)]
        self.workers: dict[int, Worker] = {}
        self.counts: Counter[str] = Counter()
        self.largest: dict[str, str] = {}
        self.dying: dict[int, str] = {}
        """At which step of its next commit a member is killed."""
        self.leaving: set[int] = set()
        """Members that were asked to stop, and have not started since."""
        self.is_ready = asyncio.Event()
        self.is_ending = False
        self.is_over = False

    topics: tuple[str, ...] = ("lines", "copied", "out", "largest")
    guarantee = AT_LEAST_ONCE
    of_group: Mapping[str, object] = CLASSIC_GROUP
    of_broker: Mapping[str, str] = BROKER
    faults: tuple[str, ...] = FAULTS
    longest_s = SHORT_S
    safety_s = SAFETY_S
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    may_end_behind = False
    """Whether the last member of a task may die between its commit and its store: the changelog has
    the rest."""

    def play(self) -> None:
        world, random = self.world, self.random
        self.broker = world.add_node("broker", self._serve)
        writer = world.add_node("writer", self._write)
        world.run_until(self.is_ready.is_set, within=60)
        self.members = [
            world.add_node(f"member-{index}", partial(self._work, index))
            for index in range(MEMBERS)
        ]
        end = world.now + self.safety_s
        while world.now < end:
            world.run_for(random.uniform(0.1, 4.0))
            self._torment()
        world.network.heal()
        for member in self.members:
            member.resume()
            self._start(member)
        self.is_ending = True
        world.run_until(lambda: not writer.is_alive, within=60)
        reader = world.add_node("reader", self._read_all)
        world.run_until(lambda: not reader.is_alive, within=LIVENESS_S)
        world.run_until(self._is_settled, within=LIVENESS_S)
        self.is_over = True
        for member in self.members:
            member.stop()
        world.run_until(lambda: not any(each.is_alive for each in self.members), within=60)
        auditor = world.add_node("auditor", self._audit)
        world.run_until(lambda: not auditor.is_alive, within=60)

    def _torment(self) -> None:
        index = self.random.randrange(MEMBERS)
        member, fault = self.members[index], self.random.choice(self.faults)
        seconds = self.random.choice((0.01, 0.5, 4.0, 4.0 * self.longest_s))
        self.happened[fault] += 1
        if index in self.leaving:
            self.happened[f"{fault} while leaving"] += 1
        if fault == "kill" and member.is_alive:
            member.crash()
            self.disks[index].die()
            self.world.after(seconds, self._start, member)
        elif fault == "stop" and member.is_alive:
            member.stop()
            self.world.run_until(lambda: not member.is_alive, within=60)
            self.world.after(seconds, self._start, member)
        elif fault == "leave" and member.is_alive:
            self._leave(index, seconds)
        elif fault == "pause" and member.is_alive:
            member.pause()
            self.world.after(min(seconds, self.longest_s), member.resume)
        elif fault in COMMIT_STEPS:
            self.dying[index] = fault
        elif fault == "isolate":
            self.world.network.isolate(member.name)
            self.world.after(min(seconds, self.longest_s), self.world.network.heal)

    def _leave(self, index: int, seconds: float) -> None:
        """Stop a member in order, and go on meanwhile: what comes next may hit it while it hands
        its tasks over, or those that take them. It starts again a while after its end."""
        member = self.members[index]
        member.stop()
        self.leaving.add(index)

        def start_again() -> None:
            if member.is_alive and index in self.leaving:
                self.world.after(1.0, start_again)
            else:
                self._start(member)

        self.world.after(seconds, start_again)

    def _is_settled(self) -> bool:
        """Whether all tasks run somewhere, and nothing is restored any more."""
        tasks = [task for worker in self.workers.values() for task in worker.tasks.values()]
        return len(tasks) == len({each.task_id for each in tasks}) == 2 * PARTITIONS and all(
            task.state is TaskState.RUNNING for task in tasks
        )

    def _start(self, member: Node) -> None:
        if not member.is_alive and not self.is_over:  # a start that was put off may come at last
            self.leaving.discard(self.members.index(member))
            member.start()

    # Nodes

    async def _serve(self, runtime: Runtime) -> None:
        async with EmbeddedBroker(self.of_broker, directory="/data", runtime=runtime, port=PORT):
            async with Admin(bootstrap_servers=SERVERS, runtime=runtime) as admin:
                for topic in self.topics:
                    await admin.create_topic(NewTopic(topic, PARTITIONS, 1))
            self.is_ready.set()
            await asyncio.Event().wait()

    async def _write(self, runtime: Runtime) -> None:
        await self.is_ready.wait()
        number = 0
        async with Producer(bootstrap_servers=SERVERS, runtime=runtime) as producer:
            while not self.is_ending:
                number += 1
                key = f"key-{number % KEYS:02}"
                line = f"{key} {number:06}"
                await (await producer.send("lines", line.encode(), partition=number % PARTITIONS))
                self.counts[key] += 1
                self.largest[key] = line
                await asyncio.sleep(0.02)

    async def _work(self, index: int, runtime: Runtime) -> None:
        directory = StateDirectory.open("/state", APP, 0, runtime)
        directory.open_database = self.disks[index].open
        try:
            plan, settings = self._plan_of(index), self._settings_of(index)
            worker = Worker(
                plan,
                partial(make_task, task_settings(plan, settings)),
                settings,
                directory,
                runtime,
                Reports(),
            )
            self.workers[index] = worker
            self._watch(index, worker)
            try:
                await worker.run()
            except KafkaError as error:
                self.happened[f"ended by {error.code.name}"] += 1
        finally:
            directory.close()

    def _plan_of(self, index: int) -> Plan:
        """Overridden where members run several versions of the app."""
        return self.plan

    def _settings_of(self, index: int) -> AppSettings:
        """Overridden where members have several settings."""
        return self.settings

    def _watch(self, index: int, worker: Worker) -> None:
        """Overridden where members are killed in the middle of commits, or copies are watched."""

    # Afterwards

    async def _read_all(self, runtime: Runtime) -> None:
        async with self._consumer(runtime) as consumer:
            largest: dict[str, str] = {}
            counts: dict[str, int] = {}
            consumer.assign(await consumer.partitions("out", "largest"))
            while largest != self.largest or any(
                counts.get(key, 0) < count for key, count in self.counts.items()
            ):
                for part in await consumer.poll(1.0):
                    for record in part.records:
                        key, value = record.key.decode(), record.value.decode()
                        if part.topic == "largest":
                            largest[key] = value
                        else:
                            counts[key] = int(value)

    def _consumer(self, runtime: Runtime) -> Consumer:
        return Consumer(
            bootstrap_servers=SERVERS,
            auto_offset_reset="earliest",
            isolation_level=self.isolation,
            runtime=runtime,
        )

    async def _audit(self, runtime: Runtime) -> None:
        for store in ("counts", "largest"):
            await self._compare(store, runtime)

    async def _compare(self, store: str, runtime: Runtime) -> None:
        topic = f"{APP}-{store}-changelog"
        async with self._consumer(runtime) as consumer:
            partitions = await consumer.partitions(topic)
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            logs: dict[int, list[Change]] = {where.partition: [] for where in partitions}
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in await consumer.poll(1.0):
                    logs[part.partition] += (
                        Change(each.offset, each.key, each.value) for each in part.records
                    )
        for partition, log in logs.items():
            position, rows = self._stored(store, partition)
            end = log[-1].offset + 1 if log else 0
            assert position >= end or self.may_end_behind, (store, partition, position, end)
            rows.update((each.key, each.value) for each in log if each.offset >= position)
            assert rows == {each.key: each.value for each in log}, partition
            self._check_log(store, partition, log)

    def _check_log(self, store: str, partition: int, log: list[Change]) -> None:
        """Overridden where answers are compared with a changelog."""

    def _stored(self, store: str, partition: int) -> tuple[int, dict[bytes, bytes]]:
        """Return the newest rows that a member has, and their position in the changelog."""
        newest: tuple[int, dict[bytes, bytes]] = (0, {})
        for disk in self.disks:
            for path in disk.commits:
                if path.endswith(f"/1_{partition}"):
                    found = disk.open(path, {"counts": "key-value", "largest": "key-value"})
                    position = found.position(store)
                    if position is not None and position.offset > newest[0]:
                        rows = found.backing(store).scan(b"", None)
                        newest = position.offset, {key: row[8:] for key, row in rows}
        return newest


class ExactlyOnceRun(Run):
    """The same with transactions: everything counts once, although members are also killed in the
    middle of commits, and paused for longer than their sessions and transactions last."""

    guarantee = EXACTLY_ONCE
    may_end_behind = True
    faults: tuple[str, ...] = (*FAULTS, *COMMIT_STEPS)
    longest_s = 15.0
    safety_s = 20.0
    isolation = "read_committed"

    def _watch(self, index: int, worker: Worker) -> None:
        worker._door.committer = DyingCommitter(worker._door.committer, partial(self._reach, index))

    async def _reach(self, index: int, step: str) -> None:
        if self.dying.get(index) == step:
            del self.dying[index]
            self.happened[f"killed at {step}"] += 1
            self.world.after(0, self._die, index)
            await asyncio.Event().wait()

    def _die(self, index: int) -> None:
        member = self.members[index]
        if member.is_alive:
            member.crash()
            self.disks[index].die()
            self.world.after(0.5, self._start, member)

    async def _read_all(self, runtime: Runtime) -> None:
        """Read until each line has come out, and fail as soon as something came twice."""
        copied: Counter[str] = Counter()
        counts: dict[str, int] = {}
        async with self._consumer(runtime) as consumer:
            consumer.assign(await consumer.partitions("copied", "out"))
            while copied.total() < self.counts.total() or counts != self.counts:
                for part in await consumer.poll(1.0):
                    for record in part.records:
                        if part.topic == "copied":
                            copied[record.value.decode()] += 1
                        else:
                            key = record.key.decode()
                            counts[key] = int(record.value)
                            assert counts[key] <= self.counts[key], (key, counts[key])
        assert set(copied.values()) == {1}, copied.most_common(3)


class StaleAnswer(NamedTuple):
    """What a worker has answered to a question that a copy may answer."""

    partition: int
    position: int
    rows: dict[str, Any]
    is_stale: bool


class StreamsGroupRun(ExactlyOnceRun):
    """The same in a streams group, whose broker assigns tasks and a standby of each. Members hand
    their tasks over when they are stopped, and faults meet them at that. What standbys have copied
    is watched, and that tasks go on from them. Workers are asked for what copies have: an answer is
    what the committed changelog makes below its position. Each other question wants no less than
    was answered before, by whichever worker: the answer is never below that."""

    of_group = STREAMS_GROUP
    faults = (*ExactlyOnceRun.faults, "leave", "leave", "leave")
    asked = ("counts", "largest")

    def __init__(self, world: Simulation) -> None:
        super().__init__(world)
        self.copied: dict[TopicPartition, set[int]] = {}
        """The offsets that standbys have read."""
        self.answers: dict[str, list[StaleAnswer]] = {name: [] for name in self.asked}

    def _watch(self, index: int, worker: Worker) -> None:
        super()._watch(index, worker)
        watched = WatchedReader(worker._door.standbys, self._saw)
        worker._door.standbys = watched  # type: ignore[assignment]

    async def _work(self, index: int, runtime: Runtime) -> None:
        asking = runtime.spawn(self._ask(index), name="asking")
        try:
            await super()._work(index, runtime)
        finally:
            asking.cancel()

    async def _ask(self, index: int) -> None:
        """Ask for all rows of a partition again and again, as far as this worker has them."""
        for number in count():
            await asyncio.sleep(ASK_S)
            store, partition = self.asked[number % 2], number // 2 % PARTITIONS
            known = [each.position for each in self.answers[store] if each.partition == partition]
            bound = max(known, default=0) if self.random.random() < 0.5 else 0
            question = PositionQuestion(
                Range(), is_stale=True, partitions=(partition,), at_least={partition: bound}
            )
            worker = self.workers.get(index)
            if worker is None:
                continue
            try:
                found = await worker.queries.ask(store, question)
            except Behind:
                self.happened["answers behind"] += 1
                continue
            except QueryFailed:
                continue
            rows = {row.key: row.value for row in found.answer}
            answer = StaleAnswer(partition, found.position[partition], rows, found.is_stale)
            assert answer.position >= bound, (store, bound, answer)
            self.answers[store].append(answer)

    def _saw(self, fetched: FetchedChunk) -> None:
        self.copied.setdefault(fetched.where, set()).update(fetched.chunk.offsets)

    def _is_settled(self) -> bool:
        """Whether there is a standby of each task with state, too, at a worker without the task."""
        copies = [
            task_id
            for worker in self.workers.values()
            for task_id in worker.standbys.tasks
            if task_id not in worker.tasks
        ]
        return super()._is_settled() and sorted(copies) == [
            TaskId(1, partition) for partition in range(PARTITIONS)
        ]

    def _check_log(self, store: str, partition: int, log: list[Change]) -> None:
        decode: Callable[[bytes], Any] = int if store == "counts" else bytes.decode
        for each in self.answers[store]:
            if each.partition == partition:
                rows = {
                    change.key.decode(): decode(change.value)
                    for change in log
                    if change.offset < each.position
                }
                assert each.rows == rows, (store, each, rows)
                self.happened["stale answers"] += each.is_stale

    async def _audit(self, runtime: Runtime) -> None:
        await super()._audit(runtime)
        async with self._consumer(runtime) as consumer:
            consumer.assign(list(self.copied))
            ends = await consumer.end_offsets(list(self.copied))
            committed: dict[TopicPartition, set[int]] = {where: set() for where in ends}
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in await consumer.poll(1.0):
                    where = TopicPartition(part.topic, part.partition)
                    committed[where].update(each.offset for each in part.records)
        self.happened["copied"] += sum(map(len, self.copied.values()))
        for where, offsets in self.copied.items():
            assert offsets <= committed[where], (where, sorted(offsets - committed[where])[:3])


class RackedRun(StreamsGroupRun):
    """The same with members in two zones: once all is at rest, the standby of each task is in the
    other zone than the task, wherever that has moved."""

    of_broker: Mapping[str, str] = {**BROKER, "group.streams.rack.aware.assignment.tags": "zone"}
    zones = ("a", "b", "b")

    def _settings_of(self, index: int) -> AppSettings:
        return replace(self.settings, tags={"zone": self.zones[index]})

    def _is_settled(self) -> bool:
        return super()._is_settled() and not self._are_together()

    def _are_together(self) -> list[TaskId]:
        """Return the tasks with a standby in their own zone."""
        zones = {
            task_id: self.zones[index]
            for index, worker in self.workers.items()
            for task_id in worker.tasks
        }
        return [
            task_id
            for index, worker in self.workers.items()
            for task_id in worker.standbys.tasks
            if zones[task_id] == self.zones[index]
        ]


class WatchedReader:
    """A reader of changelogs that tells what it returns."""

    def __init__(self, inner: Reader, saw: Callable[[FetchedChunk], None]) -> None:
        self._inner = inner
        self._saw = saw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def read(self, timeout_s: float) -> list[FetchedChunk]:
        found = await self._inner.read(timeout_s)
        for each in found:
            self._saw(each)
        return found


class DyingCommitter:
    """A committer that tells where it is in a commit."""

    is_atomic = True

    def __init__(self, inner: Committer, reach: Callable[[str], Awaitable[None]]) -> None:
        assert isinstance(inner, ExactlyOnce)
        self._inner = inner
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def log(self, where: TopicPartition, changes: ChangelogRecords) -> Deliveries:
        await self._reach("log")
        return await self._inner.log(where, changes)

    async def written(
        self,
        logged: Mapping[TopicPartition, Deliveries],
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, int]:
        await self._reach("written")
        return await self._inner.written(logged, offsets)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        await self._reach("offsets")
        producer = self._inner._sending.producer
        end = Producer.commit_transaction

        async def ending() -> None:
            await self._reach("ending")
            await end(producer)

        producer.commit_transaction = ending  # type: ignore[method-assign]
        await self._inner.commit(offsets)
        await self._reach("ended")


def run_app(seed: int, happened: Counter[str] | None = None, kind: type[Run] = Run) -> Fingerprint:
    """Run one world. Raise what was not kept, with the seed."""
    with Simulation(seed) as world:
        run = kind(world)
        run.play()
        if happened is not None:
            happened.update(run.happened)
        return world.fingerprint
