"""The topic `_schemas`: read by every instance, written by one.

Invariants: the topic has one partition and is compacted. The writer is a transactional producer,
and all instances share its id, so the start of a new writer fences the old one: what an old leader
writes late is refused by the cluster, and an id cannot be given twice. When `append` returns, its
records are acknowledged by all in-sync replicas, and the store has replayed them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from moldau.client import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.base.offsets import LATEST
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode
from moldau.logging import Logger
from moldau.registry.records import Entry
from moldau.runtime import Runtime

OnRecord = Callable[[bytes | None, bytes | None], None]

REPLICAS: Final = 3
READ_S: Final = 60.0
_POLL_S: Final = 5.0
_PAUSE_S: Final = 1.0
_CLOSE_S: Final = 5.0
_READER: Final = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "isolation.level": "read_committed",
    "max.poll.records": "100",  # of one turn: others share the event loop
}
_WRITER: Final = {"acks": "all", "linger.ms": "0", "transaction.timeout.ms": "30000"}


class SchemasLog:
    """The topic of schemas."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, str],
        topic: str,
        log: Logger,
        replicas: int | None = None,
    ) -> None:
        """A new topic gets that many `replicas`; for None three, or one a broker."""
        self._runtime = runtime
        self._replicas = replicas
        self._settings = dict(settings)
        self._topic = topic
        self._where = TopicPartition(topic, 0)
        self._log = log
        self._admin = Admin(self._settings, runtime=runtime)
        self._consumer = Consumer({**self._settings, **_READER}, runtime=runtime)
        self._producer: Producer | None = None
        self._follower: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()

    @property
    def admin(self) -> Admin:
        """The admin client of this log."""
        return self._admin

    async def start(self, on_record: OnRecord) -> None:
        """Make the topic if it does not exist, and read it. On return `on_record` was called for
        each of its records."""
        await self._admin.start()
        await self._make_topic()
        await self._consumer.start()
        self._consumer.assign([self._where])
        await self._consumer.seek_to_beginning()
        self._follower = self._runtime.spawn(self._follow(on_record), name="follow schemas")
        await self.read_to_end()

    async def _make_topic(self) -> None:
        replicas = self._replicas
        if replicas is None:
            replicas = min(REPLICAS, len((await self._admin.describe_cluster()).brokers))
        topic = NewTopic(self._topic, 1, replicas, {"cleanup.policy": "compact"})
        try:
            await self._admin.create_topic(topic)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            await self._check_topic()

    async def _check_topic(self) -> None:
        resource = Resource(ResourceType.TOPIC, self._topic)
        found = await self._admin.describe_configs(resource, names=["cleanup.policy"])
        policy = found[0].value if found else None
        if policy != "compact":
            raise ConfigError(
                "the topic of schemas must be compacted, or schemas are lost with time: set its "
                "cleanup.policy to compact, or name another topic",
                topic=self._topic,
                cleanup_policy=policy,
            )
        partitions = await self._admin.partitions(self._topic)
        if len(partitions) != 1:
            raise ConfigError(
                "the topic of schemas must have one partition: name another topic",
                topic=self._topic,
                partitions=len(partitions),
            )

    def followed(self) -> asyncio.Task[None]:
        """Return the task that reads the topic. It does not end by itself."""
        assert self._follower is not None, "not started"
        return self._follower

    async def _follow(self, on_record: OnRecord) -> None:
        while True:
            try:
                parts = await self._consumer.poll(_POLL_S)
            except KafkaError as error:
                self._log.warn("the schemas cannot be read, trying on", error=str(error))
                await asyncio.sleep(_PAUSE_S)
                continue
            for part in parts:
                for record in part.records:
                    on_record(record.key, record.value)
            self._moved.set()
            await asyncio.sleep(0)

    async def lead(self, transactional_id: str) -> None:
        """Start to write. On return no other writer can, and all that they wrote was read."""
        await self.step_down()
        settings = {**self._settings, **_WRITER, "transactional.id": transactional_id}
        producer = Producer(settings, runtime=self._runtime)
        await producer.start()
        self._producer = producer
        await self.read_to_end()

    async def step_down(self) -> None:
        """Stop to write."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaError):
                await producer.aclose(_CLOSE_S, abort=True)

    async def append(self, entries: Sequence[Entry]) -> None:
        """Append all records or none. Raise KafkaError; a FatalTransactionError means that another
        instance writes now."""
        assert self._producer is not None, "only a leader writes"
        async with self._producer.transaction():
            sent = [
                await self._producer.send(self._topic, each.value, key=each.key, partition=0)
                for each in entries
            ]
        await self._read_to(max([(await each).offset for each in sent]) + 1)

    async def read_to_end(self) -> None:
        """Read all that was committed before this call."""
        found = await self._admin.list_offsets({self._where: LATEST}, is_committed=True)
        await self._read_to(found[self._where].offset)

    async def _read_to(self, end: int) -> None:
        async with asyncio.timeout(READ_S):
            while (self._consumer.position(self._where) or 0) < end:
                self._moved.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), 0.2)

    async def aclose(self) -> None:
        """Close all connections."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.cancel()
            await asyncio.wait([follower])
        await self.step_down()
        await self._admin.aclose()
        await self._consumer.aclose()
