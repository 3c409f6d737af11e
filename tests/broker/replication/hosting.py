"""A simulated node with log directories and replicas, and what clients do with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.meta_properties import MetaProperties, write_meta_properties
from moldau.broker.replication.partition import Leadership, Partition
from moldau.broker.replication.purgatory import DelayedOperation, Purgatory
from moldau.broker.replication.replicas import Replicas
from moldau.broker.replication.topic_config import TopicConfig
from moldau.errors.codes import KafkaError
from moldau.logging import Loggers
from moldau.runtime import Runtime
from tests.broker.log.machine import SMALL

T = TypeVar("T")
CLUSTER: Final = "cluster"
NODE_ID: Final = 1
PATHS: Final = ("/a", "/b")
CONFIG: Final = TopicConfig(replace(SMALL, file_delete_delay_ms=0))
FLUSHED: Final = TopicConfig(replace(SMALL, flush_messages=1))


def topic_id_of(topic: str) -> bytes:
    return topic.encode().ljust(16, b".")


def leadership(topic: str, index: int = 0, epoch: int = 0, **more: Any) -> Leadership:
    known: dict[str, Any] = {
        "topic_id": topic_id_of(topic),
        "isr": (NODE_ID,),
        "replicas": (NODE_ID,),
        "is_new": True,
    }
    return Leadership(topic, index, leader_epoch=epoch, **{**known, **more})


def format_directories(runtime: Runtime, paths: Sequence[str] = PATHS) -> None:
    for number, path in enumerate(paths, 1):
        if not runtime.files.exists(f"{path}/meta.properties"):
            runtime.files.make_dirs(path)
            meta = MetaProperties(CLUSTER, NODE_ID, bytes(15) + bytes([100 + number]))
            write_meta_properties(runtime.files, path, meta)


@dataclass
class Host:
    """What one life of a node has; `lines` is what it wrote to its log."""

    runtime: Runtime
    replicas: Replicas
    directories: LogDirectories
    lines: list[str] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        runtime: Runtime,
        paths: Sequence[str] = PATHS,
        config: LogConfig = CONFIG.log,
    ) -> Host:
        format_directories(runtime, paths)
        directories = LogDirectories.open(runtime.files, paths, CLUSTER, NODE_ID)
        directories.load(lambda partition, topic_id: config, runtime.clock.wall_ms())
        lines: list[str] = []
        log = Loggers(runtime.clock, lines.append).get("test")
        purgatory = Purgatory(runtime.clock, asyncio.get_running_loop())
        return cls(
            runtime, Replicas(runtime, directories, NODE_ID, purgatory, log), directories, lines
        )

    def lead(
        self, topic: str, index: int = 0, config: TopicConfig = CONFIG, **more: Any
    ) -> Partition:
        self.replicas.lead(leadership(topic, index, **more), config)
        return self.replicas.partition(topic, index)

    async def led(
        self, topic: str, index: int = 0, config: TopicConfig = CONFIG, **more: Any
    ) -> Partition:
        """Lead a partition whose log may be made in a thread."""
        self.replicas.lead(leadership(topic, index, **more), config)
        await self.replicas.logs_made()
        return self.replicas.partition(topic, index)

    async def acknowledged(
        self, partition: Partition, records: bytearray, acks: int = 1, timeout_ms: int = 60_000
    ) -> int:
        """Produce as a client does; the first offset. KafkaError, TimeoutError."""
        appended = partition.append(records, acks, self.runtime.clock.wall_ms())
        if not partition.is_acknowledged(appended.last_offset, acks):
            produce = Produce(partition, appended.last_offset, acks)
            self.replicas.purgatory.watch(produce, [partition], timeout_ms)
            await produce.answer
        return appended.first_offset


class Produce(DelayedOperation):
    """An append that is not acknowledged yet."""

    __slots__ = ("acks", "answer", "last_offset", "partition")

    def __init__(self, partition: Partition, last_offset: int, acks: int) -> None:
        self.partition = partition
        self.last_offset = last_offset
        self.acks = acks
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def try_complete(self) -> bool:
        try:
            is_done = self.partition.is_acknowledged(self.last_offset, self.acks)
        except KafkaError as error:
            self.answer.set_exception(error)
            return True
        if is_done:
            self.answer.set_result(None)
        return is_done

    def on_timeout(self) -> None:
        self.answer.set_exception(TimeoutError())
