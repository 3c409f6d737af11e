"""Clients of a cluster, which write down a history: producers, readers, an administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from moldau.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.testing.anomalies import find_anomalies
from moldau.testing.history import Copy, Event, Moved, Outcome, Read, ReadAll, Sent

TOPIC = "t"
AUDITOR = "auditor"
IN_FLIGHT = 5


def partition_name(index: int) -> str:
    return f"{TOPIC}-{index}"


class Traffic:
    """Producers and readers of one topic, and the history of all of them."""

    def __init__(self, servers: str, partitions: int = 1) -> None:
        self.servers = servers
        self.partitions = partitions
        self.sent: list[Sent] = []
        self.events: list[Event] = []
        """Of consumers."""
        self.acknowledged = 0
        self.slowest_s = 0.0
        self.is_ending = False
        self.pause_s = 0.01

    async def create(self, runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=self.servers) as admin:
            await admin.create_topics([NewTopic(TOPIC, self.partitions, 3)])

    # Producers.

    def _sending(self, producer: str, index: int) -> int:
        """Note a record that is about to be sent; its place in the history."""
        value = f"{producer}/{len(self.sent)}"
        self.sent.append(Sent(producer, partition_name(index), value, outcome=Outcome.UNKNOWN))
        return len(self.sent) - 1

    def _acknowledged(self, place: int, offset: int) -> None:
        self.sent[place] = replace(self.sent[place], offset=offset, outcome=Outcome.ACKNOWLEDGED)
        self.acknowledged += 1

    async def produce(self, runtime: Runtime) -> None:
        """A producer that waits for each record."""
        loop = asyncio.get_running_loop()
        async with Producer(
            runtime=runtime, bootstrap_servers=self.servers, acks="all"
        ) as producer:
            while not self.is_ending:
                place = self._sending(runtime.node, len(self.sent) % self.partitions)
                began = loop.time()
                try:
                    sent = await self._send(producer, place)
                except KafkaError:
                    continue  # it may be there or not
                self.slowest_s = max(self.slowest_s, loop.time() - began)
                self._acknowledged(place, sent.offset)
                await asyncio.sleep(self.pause_s)

    async def _send(self, producer: Producer, place: int) -> Any:
        sent = self.sent[place]
        index = int(sent.partition.rpartition("-")[2])
        return await (await producer.send(TOPIC, sent.value.encode(), partition=index))

    async def produce_ahead(self, runtime: Runtime) -> None:
        """An idempotent producer with several records on their way."""
        async with Producer(
            runtime=runtime, bootstrap_servers=self.servers, acks="all", linger_ms=0
        ) as producer:
            waiting: dict[int, None] = {}
            while not self.is_ending:
                if len(waiting) < IN_FLIGHT:
                    place = self._sending(runtime.node, 0)
                    waiting[place] = None
                    value = self.sent[place].value.encode()
                    await producer.send(
                        TOPIC, value, partition=0, on_delivery=self._delivered(place, waiting)
                    )
                await asyncio.sleep(self.pause_s)

    def _delivered(self, place: int, waiting: dict[int, None]) -> Callable[[Any, Any], None]:
        def on_delivery(sent: Any, error: Any) -> None:
            waiting.pop(place)
            if error is None:
                self._acknowledged(place, sent.offset)

        return on_delivery

    async def produce_loosely(self, runtime: Runtime) -> None:
        """A producer that the leader alone acknowledges: nothing is promised for its records."""
        async with Producer(
            runtime=runtime,
            bootstrap_servers=self.servers,
            acks="1",
            enable_idempotence=False,
            retries=0,
            delivery_timeout_ms=1000,
            request_timeout_ms=500,
            linger_ms=0,
        ) as producer:
            while not self.is_ending:
                place = self._sending(runtime.node, 0)
                try:
                    await self._send(producer, place)
                except KafkaError:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(self.pause_s)

    # Consumers.

    async def read(self, runtime: Runtime) -> None:
        """A consumer that follows what is written."""
        await self._read(runtime, is_over=lambda: self.is_ending)

    async def _read(self, runtime: Runtime, *, is_over: Callable[[], bool]) -> None:
        places = [TopicPartition(TOPIC, index) for index in range(self.partitions)]
        async with Consumer(
            runtime=runtime, bootstrap_servers=self.servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(places)
            self.events.extend(
                Moved(runtime.node, partition_name(index)) for index in range(self.partitions)
            )
            while not is_over():
                for part in await consumer.poll(0.2):
                    name = partition_name(part.partition)
                    self.events.extend(
                        Read(runtime.node, name, record.offset, bytes(record.value or b"").decode())
                        for record in part.records
                    )

    async def read_all(self, runtime: Runtime) -> None:
        """Reads everything that was acknowledged, from the beginning."""
        wanted = {each.value for each in self.sent if each.outcome is Outcome.ACKNOWLEDGED}
        lasts: dict[str, int] = {}
        for each in self.sent:
            lasts[each.partition] = max(each.offset, lasts.get(each.partition, -1))
        begin = len(self.events)

        def is_over() -> bool:
            found: dict[str, int] = {}
            for event in self.events[begin:]:
                if isinstance(event, Read) and event.consumer == runtime.node:
                    found[event.partition] = event.offset
            return all(found.get(name, -1) >= last for name, last in lasts.items())

        assert wanted, "nothing was acknowledged"
        await self._read(runtime, is_over=is_over)
        self.events.append(ReadAll(runtime.node))

    # Its judgement.

    def check(self, copies: dict[int, dict[int, dict[int, str]]]) -> None:
        """No anomaly is in the history. `copies`: by partition and broker, the digest of each
        batch."""
        found = find_anomalies([*self.sent, *self.events, *_copies(copies)])
        assert not found, "\n".join(map(str, found[:20]))


def _copies(copies: dict[int, dict[int, dict[int, str]]]) -> list[Event]:
    return [
        Copy(f"b{broker}", partition_name(index), offset, digest)
        for index, by_broker in copies.items()
        for broker, batches in by_broker.items()
        for offset, digest in batches.items()
    ]


class Maker:
    """Makes topics one after the other, and remembers which were promised."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.made: list[str] = []
        self.slowest_s = 0.0
        self.is_ending = False

    async def make(self, runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        async with Admin(runtime=runtime, bootstrap_servers=self.servers) as admin:
            number = 0
            while not self.is_ending:
                name, began = f"made-{number}", loop.time()
                number += 1
                try:
                    result = (await admin.create_topics([NewTopic(name, 1, 1)]))[name]
                except KafkaError:
                    continue  # it may be there or not
                if not isinstance(result, KafkaError):
                    self.made.append(name)
                else:
                    # Asked again after an answer that was lost.
                    assert result.retriable or result.code == ErrorCode.TOPIC_ALREADY_EXISTS
                self.slowest_s = max(self.slowest_s, loop.time() - began)
                await asyncio.sleep(0.05)

    async def check(self, runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=self.servers) as admin:
            known = {each.name for each in await admin.list_topics()}
        missing = set(self.made) - known
        assert not missing, f"promised and not there: {sorted(missing)}"
