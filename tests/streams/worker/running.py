"""A worker beside the test, and what it makes of topics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.runtime import Runtime
from moldau.streams.plan.plan import Plan
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.settings import app_settings
from moldau.streams.worker.state_directory import StateDirectory
from moldau.streams.worker.tasks import MakeTask
from moldau.streams.worker.worker import Worker
from tests.streams.worker.counting import CountingTask

LINES = ["a b a", "c a", "b", "", "d d d d"]
COUNTS = {"a": "3", "b": "2", "c": "1", "d": "4"}
_apps = count()


def names() -> tuple[str, str, str]:
    """An app, its input and its output."""
    app = f"worker-{next(_apps)}"
    return app, f"{app}-lines", f"{app}-out"


def has(expected: dict[str, str]) -> Callable[[dict[str, str]], bool]:
    return lambda found: found == expected


def restored_by(worker: Any) -> Counter[str]:
    """Records by task."""
    found = {str(task_id): each.task.restored for task_id, each in worker.tasks.items()}
    return +Counter(found)


@dataclass
class Cluster:
    """Where a broker is, and what a test does with it."""

    servers: str
    runtime: Runtime
    settings: dict[str, object] = field(default_factory=dict)
    ended: asyncio.Future[None] = field(init=False)
    """Of the worker that was started last."""

    async def make(self, *topics: str, partitions: int = 2) -> None:
        async with Admin(bootstrap_servers=self.servers, runtime=self.runtime) as admin:
            for topic in topics:
                await admin.create_topic(NewTopic(topic, partitions, 1))

    async def replace(self, topic: str) -> None:
        """Another topic of the same name."""
        async with Admin(bootstrap_servers=self.servers, runtime=self.runtime) as admin:
            await admin.delete_topic(topic)
        await self.make(topic)

    async def write(self, topic: str, *values: str) -> None:
        async with Producer(bootstrap_servers=self.servers, runtime=self.runtime) as producer:
            for at, value in enumerate(values):
                await producer.send(topic, value.encode(), partition=at % 2)

    async def read(self, topic: str, is_enough: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        """The last value of each key, as soon as that is enough; fails after a minute."""
        found: dict[str, str] = {}
        async with (
            asyncio.timeout(60),
            Consumer(
                bootstrap_servers=self.servers,
                isolation_level="read_committed",
                runtime=self.runtime,
            ) as consumer,
        ):
            partitions = await consumer.partitions(topic)
            consumer.assign(partitions)
            await consumer.seek_to_beginning(partitions)
            try:
                while not is_enough(found):
                    for part in await consumer.poll(0.2):
                        for record in part.records:
                            found[record.key.decode()] = record.value.decode()
            except asyncio.CancelledError:
                raise AssertionError(f"{topic} has only {found}") from None
        return found

    async def values(self, topic: str) -> list[str]:
        """The values of all committed records of a topic, in no order."""
        found = []
        async with Consumer(
            bootstrap_servers=self.servers, isolation_level="read_committed", runtime=self.runtime
        ) as consumer:
            partitions = await consumer.partitions(topic)
            consumer.assign(partitions)
            await consumer.seek_to_beginning(partitions)
            ends = await consumer.end_offsets(partitions)
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in await consumer.poll(0.2):
                    found += [record.value.decode() for record in part.records]
        return sorted(found)

    @asynccontextmanager
    async def worker(
        self,
        plan: Plan,
        state: str,
        *,
        make_task: MakeTask = CountingTask,
        index: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> AsyncIterator[Worker]:
        """Stopped at the end as by SIGTERM; its failure is the test's."""
        given = app_settings(
            {
                "bootstrap.servers": self.servers,
                "commit.interval.ms": 50,
                **self.settings,
                **(settings or {}),
            }
        )
        directory = StateDirectory.open(state, plan.app, index, self.runtime)
        worker = Worker(plan, make_task, given, directory, self.runtime, Reports())
        running = asyncio.ensure_future(worker.run())
        self.ended = running
        try:
            yield worker
            running.cancel()
            await running
        finally:
            running.cancel()
            await asyncio.wait([running])
            directory.close()
