"""A log in a compacted topic, read and written by a client.

Invariants: the topic is created with Kafka Connect's settings if it does not exist, and rejected if
it exists without compaction, which would lose configs and offsets. All partitions are read from
their start; records of one key are in one partition, so the last one read is the valid one. Only
committed records are read; with transactions, `read_to_end` waits for those that are open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from moldau.client import Admin, Consumer, KafkaError, NewTopic, Producer, Sent, TopicPartition
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.base.offsets import LATEST
from moldau.connect.storage.leader import LeaderWrites
from moldau.connect.storage.log import Entry, KeyedLog, OnRecord
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode
from moldau.logging import Logger
from moldau.runtime import Runtime

_POLL_S = 5.0
_PATIENCE_S = 60.0
_TRANSACTIONS_S = 150.0
"""How long to wait if a transaction of a killed task may be open, which the cluster aborts after
the minute of its timeout, or the interval of its boundary more."""
_CLOSE_S = 5.0
"""How long `aclose` waits for a broker that may be gone. Callers of `append` wait longer
themselves, so only statuses can be pending then."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """An internal topic, and the prefix of the worker's settings that define it."""

    name: str
    setting: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    has_transactions: bool = False
    """Whether tasks or leaders write to it in transactions."""
    leader_id: str | None = None
    """The transactional id of the leader; None if it writes without transactions."""


class TopicLog(KeyedLog):
    """A log in one compacted topic."""

    def __init__(
        self, runtime: Runtime, client_settings: Mapping[str, object], topic: TopicSpec, log: Logger
    ) -> None:
        self._runtime = runtime
        self._topic = topic
        self._log = log
        self._settings = dict(client_settings)
        own = {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "allow.auto.create.topics": "false",
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer({**self._settings, **own}, runtime=runtime)
        writes = {"acks": "all", "linger.ms": "0", "delivery.timeout.ms": "120000"}
        self._producer = Producer({**self._settings, **writes}, runtime=runtime)
        self._leader: LeaderWrites | None = None
        if topic.leader_id is not None:
            self._leader = LeaderWrites(runtime, self._settings, topic.leader_id)
        # A connection of its own: on the consumer's an answer waits until a fetch returns records.
        self._admin = Admin(self._settings, runtime=runtime)
        self._partitions: list[TopicPartition] = []
        self._position = 0
        self._moved = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._on_record: OnRecord | None = None

    @property
    def position(self) -> int:
        """The offset behind the last record that was read, of whatever partition: the config topic
        has one. Ends of transactions do not count, as Kafka Connect's workers do not see them."""
        return self._position

    async def start(self, on_record: OnRecord) -> None:
        self._on_record = on_record
        await self._admin.start()
        await self._make_topic()
        await self._producer.start()
        await self._consumer.start()
        self._partitions = await self._consumer.partitions(self._topic.name)
        self._consumer.assign(self._partitions)
        await self._consumer.seek_to_beginning()
        self._follower = self._runtime.spawn(self._follow(), name=f"follow {self._topic.name}")
        # A killed task may have left a transaction open, which its next run ends: that waits for
        # this start, so this start does not wait for the transaction.
        await self._read_to(await self._ends(is_committed=True))

    async def _make_topic(self) -> None:
        topic = self._topic
        configs = {"cleanup.policy": "compact", **topic.configs}
        wanted = NewTopic(topic.name, topic.partitions, topic.replication_factor, configs)
        try:
            await self._admin.create_topic(wanted)
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_REPLICATION_FACTOR:
                raise ConfigError(
                    "an internal topic cannot be made: the cluster has fewer brokers than "
                    "replicas are wanted",
                    topic=topic.name,
                    setting=f"{topic.setting}.replication.factor",
                    value=topic.replication_factor,
                ) from error
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            await self._check_policy()

    async def _check_policy(self) -> None:
        resource = Resource(ResourceType.TOPIC, self._topic.name)
        found = await self._admin.describe_configs(resource, names=["cleanup.policy"])
        policy = found[0].value if found else None
        if policy != "compact":
            raise ConfigError(
                "an internal topic must be compacted, or its records are lost with time: "
                "set its cleanup.policy to compact, or name another topic",
                topic=self._topic.name,
                setting=f"{self._topic.setting}.topic",
                cleanup_policy=policy,
            )

    async def _follow(self) -> None:
        assert self._on_record is not None
        while True:
            try:
                parts = await self._consumer.poll(_POLL_S)
            except KafkaError as error:
                self._log.warn("an internal topic cannot be read, trying on", error=str(error))
                await asyncio.sleep(1.0)
                continue
            for part in parts:
                for record in part.records:
                    self._position = record.offset + 1
                    if record.key is not None:
                        self._on_record(bytes(record.key), record.value)
            self._moved.set()

    async def append(self, entries: Sequence[Entry]) -> None:
        """Append the records. On return they are acknowledged and were read back."""
        sent = [
            await self._producer.send(self._topic.name, value, key=key) for key, value in entries
        ]
        await self._producer.flush()
        await self._read_back([await each for each in sent])

    @property
    def is_claimed(self) -> bool:
        return self._leader is None or self._leader.is_claimed

    async def claim(self) -> None:
        if self._leader is not None:
            await self._leader.claim()

    async def append_as_leader(self, entries: Sequence[Entry]) -> None:
        if self._leader is None:
            await self.append(entries)
        else:
            await self._read_back(await self._leader.write(self._topic.name, entries))

    async def _read_back(self, sent: Sequence[Sent]) -> None:
        ends: dict[TopicPartition, int] = {}
        for done in sent:
            ends[TopicPartition(done.topic, done.partition)] = done.offset + 1
        if any(end == 0 for end in ends.values()):  # the broker had it from an earlier attempt
            await self.read_to_end()
        else:
            await self._read_to(ends)

    async def read_to_end(self) -> None:
        await self._read_to(await self._ends(is_committed=not self._topic.has_transactions))

    async def _ends(self, *, is_committed: bool) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(self._partitions, LATEST)
        found = await self._admin.list_offsets(wanted, is_committed=is_committed)
        return {where: end.offset for where, end in found.items()}

    async def _read_to(self, ends: Mapping[TopicPartition, int]) -> None:
        patience_s = _TRANSACTIONS_S if self._topic.has_transactions else _PATIENCE_S
        async with asyncio.timeout(patience_s):
            while not all(self._is_read(where, end) for where, end in ends.items()):
                self._moved.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await self._moved.wait()

    def _is_read(self, where: TopicPartition, end: int) -> bool:
        position = self._consumer.position(where)
        return end <= 0 or (position is not None and position >= end)

    async def aclose(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.cancel()
            await asyncio.wait([follower])
        await self._admin.aclose()
        await self._consumer.aclose()
        if self._leader is not None:
            await self._leader.aclose()
        try:
            await self._producer.aclose(_CLOSE_S)
        except KafkaError as error:
            self._log.warn("the last records of an internal topic were lost", error=str(error))
