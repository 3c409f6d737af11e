"""A topic and a transactional id of one test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal
from uuid import uuid4

import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.peers.either_broker import Broker

PARTITIONS = 2


class Space:
    """A topic and a transactional id of one test's own."""

    def __init__(self, broker: Broker) -> None:
        self.servers = broker.bootstrap_servers
        self.topic = f"out-{uuid4().hex[:8]}"
        self.name = f"app-{self.topic}"

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            async with asyncio.timeout(90), Admin(bootstrap_servers=self.servers) as admin:
                await admin.create_topic(NewTopic(self.topic, PARTITIONS, 1))
                await main()

        asyncio.run(whole())

    def producer(self, **options: Any) -> Producer[Any, Any]:
        return Producer(bootstrap_servers=self.servers, transactional_id=self.name, **options)

    async def check(self, expected: list[bytes]) -> None:
        """Compare the committed values. Kafka writes the markers after its answer."""
        expected = sorted(expected)
        async with asyncio.timeout(30):
            while (found := await self.read()) != expected:
                assert len(found) < len(expected)

    async def read(
        self, isolation_level: Literal["read_uncommitted", "read_committed"] = "read_committed"
    ) -> list[bytes]:
        """All values up to the end, sorted."""
        found: list[bytes] = []
        where = [TopicPartition(self.topic, index) for index in range(PARTITIONS)]
        async with Consumer(
            bootstrap_servers=self.servers, isolation_level=isolation_level
        ) as reader:
            reader.assign(where)
            await reader.seek_to_beginning()
            ends = await reader.end_offsets(where)
            while any((reader.position(each) or 0) < ends[each] for each in where):
                for part in await reader.poll(1.0):
                    found += [value for value in part.values() if value is not None]
        return sorted(found)


@pytest.fixture
def space(broker: Broker) -> Space:
    return Space(broker)
