"""Apps on one broker, in this process: what goes in, and all that came out when nothing is left.

Nothing is left when every input of every task is read and committed up to its end: outputs are
acknowledged before offsets are committed, so the ends that are asked for afterwards include them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.records import partition_for_key
from moldau.runtime import Runtime
from moldau.streams.plan.layout import assumed_layout
from moldau.streams.plan.plan import Plan
from moldau.streams.running import make_task, task_settings
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.settings import app_settings
from moldau.streams.worker.state_directory import StateDirectory
from moldau.streams.worker.tasks import TaskState
from moldau.streams.worker.worker import Worker

PARTITIONS: Final = 2
SETTLED_S: Final = 120
_LATEST: Final = -1
_LOOK_S: Final = 0.005


class Out(NamedTuple):
    """A record that an app wrote."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass
class Broker:
    """A broker and the clients of a test."""

    servers: str
    runtime: Runtime
    admin: Admin
    producer: Producer
    keyless: Counter[str] = field(default_factory=Counter)

    async def make(self, topics: Iterable[str], partitions: int = PARTITIONS) -> None:
        """Topics that keep records of any time."""
        configs = {"retention.ms": "-1"}
        new = [NewTopic(each, partitions, 1, configs) for each in sorted(set(topics))]
        for result in (await self.admin.create_topics(new)).values():
            assert not isinstance(result, Exception), result

    async def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        time: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """One record, where the driver puts it, too."""
        if key is None:
            partition = self.keyless[topic] % PARTITIONS
            self.keyless[topic] += 1
        else:
            partition = partition_for_key(key, PARTITIONS)
        await self.producer.send(
            topic, value, key=key, partition=partition, timestamp_ms=time, headers=list(headers)
        )

    async def written(self) -> None:
        """Returns when all is acknowledged."""
        await self.producer.flush()


@asynccontextmanager
async def clients(servers: str, runtime: Runtime) -> AsyncIterator[Broker]:
    async with (
        Admin(bootstrap_servers=servers, runtime=runtime) as admin,
        Producer(bootstrap_servers=servers, runtime=runtime) as producer,
    ):
        yield Broker(servers, runtime, admin, producer)


class RunningApp:
    """Workers of one app, and a consumer of what it writes."""

    def __init__(self, broker: Broker, plan: Plan, state: str) -> None:
        self._broker = broker
        self._plan = plan
        self._state = state
        self._left = AsyncExitStack()
        self._workers: list[tuple[Worker, asyncio.Future[None], StateDirectory]] = []
        self._consumer = Consumer(
            bootstrap_servers=broker.servers,
            isolation_level="read_committed",
            runtime=broker.runtime,
        )
        layout = assumed_layout(plan, {}, PARTITIONS)
        self._expected = {
            TopicPartition(topic, partition)
            for topic in layout.inputs()
            for partition in range(layout.counts[topic])
        }
        self._outputs = layout.outputs

    @classmethod
    @asynccontextmanager
    async def of(
        cls, broker: Broker, plan: Plan, state: str, workers: int = 1
    ) -> AsyncIterator[RunningApp]:
        """The app's topics, and so many workers of it until the end of the block."""
        app = cls(broker, plan, state)
        await broker.make({*plan.source_topics(), *app._outputs})
        async with app._consumer:
            try:
                partitions = [
                    TopicPartition(topic, each)
                    for topic in app._outputs
                    for each in range(PARTITIONS)
                ]
                app._consumer.assign(partitions)
                await app._consumer.seek_to_beginning(partitions)
                for index in range(workers):
                    app.start(index)
                yield app
            finally:
                await app.stop()

    def start(self, index: int = 0) -> None:
        """One more worker; `index` says with which state."""
        broker = self._broker
        settings = app_settings(
            {"bootstrap.servers": broker.servers, "commit.interval.ms": 0, "poll.ms": 50}
        )
        directory = StateDirectory.open(self._state, self._plan.app, index, broker.runtime)
        task = task_settings(self._plan, settings)
        worker = Worker(
            self._plan,
            lambda *arguments: make_task(task, *arguments),
            settings,
            directory,
            broker.runtime,
            Reports(),
        )
        self._workers.append((worker, asyncio.ensure_future(worker.run()), directory))

    async def stop(self) -> None:
        """Ends all workers as a signal does; the failure of one is the caller's."""
        workers, self._workers = self._workers, []
        for _, running, _ in workers:
            running.cancel()
        try:
            for _, running, _ in workers:
                await asyncio.wait([running])
            for _, running, _ in workers:
                running.result()
        finally:
            for _, _, directory in workers:
                directory.close()

    async def settled(self) -> list[Out]:
        """What came out since the last call, when all that went in is processed and committed."""
        found: list[Out] = []
        async with asyncio.timeout(SETTLED_S):
            while not await self._is_settled():
                await self._read(_LOOK_S, found)
            wanted = dict.fromkeys(self._consumer.assignment, _LATEST)
            ends = await self._broker.admin.list_offsets(wanted)
            while any(
                (self._consumer.position(where) or 0) < end.offset for where, end in ends.items()
            ):
                await self._read(_LOOK_S, found)
        return found

    async def _read(self, timeout_s: float, into: list[Out]) -> None:
        for part in await self._consumer.poll(timeout_s):
            into += [
                Out(
                    part.topic, part.partition, each.key, each.value, each.timestamp,
                    tuple(each.headers),
                )
                for each in part.records
            ]  # fmt: skip

    async def _is_settled(self) -> bool:
        for _, running, _ in self._workers:
            if running.done():
                running.result()
                raise AssertionError("a worker has ended")
        tasks = [task for worker, _, _ in self._workers for task in worker.tasks.values()]
        if any(task.state is not TaskState.RUNNING or task.is_touched for task in tasks):
            return False
        if any(
            task.committed.get(where.topic) != offset
            for task in tasks
            for where, offset in task.fetched.items()
        ):
            return False
        read = {
            where: worker._door.consumer.position(where)
            for worker, _, _ in self._workers
            for task in worker.tasks.values()
            for where in task.inputs
        }
        if read.keys() != self._expected:
            return False
        # The markers of transactions are read, too, and no task gets them.
        found = await self._broker.admin.list_offsets(dict.fromkeys(read, _LATEST))
        return all(found[where].offset == offset for where, offset in read.items())
