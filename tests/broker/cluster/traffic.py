"""A producer, an administrator and an auditor of one topic."""

from __future__ import annotations

import asyncio

from moldau.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime

TOPIC = "t"


class Traffic:
    """A producer that waits for each record, and what it was told."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.acknowledged: dict[bytes, int] = {}
        self.slowest_s = 0.0
        self.is_ending = False

    async def produce(self, runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        async with Producer(
            runtime=runtime, bootstrap_servers=self.servers, acks="all"
        ) as producer:
            number = 0
            while not self.is_ending:
                value = b"%d" % number
                began = loop.time()
                number += 1
                try:
                    sent = await (await producer.send(TOPIC, value, partition=0))
                except KafkaError:
                    continue  # it may be there or not
                self.slowest_s = max(self.slowest_s, loop.time() - began)
                self.acknowledged[value] = sent.offset
                await asyncio.sleep(0.01)

    async def create(self, runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=self.servers) as admin:
            await admin.create_topics([NewTopic(TOPIC, 1, 3)])

    async def check(self, runtime: Runtime) -> None:
        """What was acknowledged is there, once, where the producer was told."""
        place = TopicPartition(TOPIC, 0)
        async with Consumer(
            runtime=runtime, bootstrap_servers=self.servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([place])
            found: dict[bytes, int] = {}
            last = max(self.acknowledged.values())
            async for record in consumer:
                value = bytes(record.value or b"")
                assert value not in found, "doubled"
                found[value] = record.offset
                if record.offset >= last:
                    break
        missing = self.acknowledged.keys() - found.keys()
        assert not missing, f"lost {len(missing)}"
        assert all(found[value] == at for value, at in self.acknowledged.items())
