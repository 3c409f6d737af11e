"""What sends a source, and copies it into a target, with three libraries of Python.

A copier flushes, and then commits, for each piece that it reads; with transactions both are one. It
goes on after an error that its library leaves to the program, and notes it: a case without faults
has none.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client import (
    Consumer,
    FatalTransactionError,
    KafkaError,
    Producer,
    ShareConsumer,
    Transaction,
)
from tests.broker.pairs.columns import TRANSACTIONAL
from tests.broker.pairs.door import Door
from tests.broker.pairs.model import PARTITIONS, Piece

WAIT_S: Final = 30.0
_TIMEOUT_MS: Final = 20_000
_SESSION_MS: Final = 6_000
_PIECE: Final = 40
_IDLE_S: Final = 0.2


@dataclass(slots=True)
class Job:
    """What is to be copied, and how."""

    case: Mapping[str, str]
    door: Door
    source: str
    target: str
    name: str
    """The name of the group, and what transactional ids begin with."""
    also_read: Sequence[str] = ()
    """Other topics that the copiers subscribe to."""
    stop: threading.Event = field(default_factory=threading.Event)
    errors: list[str] = field(default_factory=list)

    @property
    def is_transactional(self) -> bool:
        return self.case["sender"] in TRANSACTIONAL

    @property
    def is_idempotent(self) -> bool:
        return self.case["sender"] != "plain"

    @property
    def flight(self) -> int:
        """How many requests may be in flight."""
        return 1 if self.case["sender"] == "transactional" else 5

    @property
    def batch_bytes(self) -> int:
        """How large a batch may be."""
        return 64 if self.case["sender"] == "pipelined" else 512

    def note(self, error: BaseException) -> None:
        """Keep an error that the program has gone on after."""
        self.errors.append(f"{type(error).__name__}: {error}")


def key_of(number: int) -> bytes:
    """Keys are different, so that compaction removes nothing."""
    return b"key-%d" % number


def number_of(value: bytes) -> int:
    return int(value.split(b" ")[0])


def value_of(number: int) -> bytes:
    return b"%d %s" % (number, b"x" * (number % 50))


class Library(ABC):
    """The sender and the copiers of one library. Each copier has a thread."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @abstractmethod
    def send(self, pieces: Sequence[Piece]) -> None:
        """Send pieces of the source, without waiting between the records of a piece."""

    @abstractmethod
    def copy(self, worker: int) -> None:
        """Copy until `stop` is set."""


class Ours(Library):
    def _producer(self, ending: str) -> Producer[Any, Any]:
        job = self.job
        return Producer({
            **job.door.ours(), "linger.ms": "0", "batch.size": str(job.batch_bytes),
            "max.in.flight.requests.per.connection": str(job.flight),
            "compression.type": job.case["codec"], "client.id": job.name,
            "enable.idempotence": str(job.is_idempotent).lower(),
            **({"transactional.id": f"{job.name}-{ending}",
                "transaction.timeout.ms": str(_TIMEOUT_MS)} if job.is_transactional else {}),
        })  # fmt: skip

    def send(self, pieces: Sequence[Piece]) -> None:
        asyncio.run(self._send(pieces))

    async def _send(self, pieces: Sequence[Piece]) -> None:
        async with self._producer("source") as producer:
            for piece in pieces:
                if not self.job.is_transactional:
                    await self._send_piece(producer, piece)
                    continue
                try:
                    async with producer.transaction():
                        await self._send_piece(producer, piece)
                        if piece.is_aborted:
                            raise _Aborted
                except _Aborted:
                    pass
            await producer.flush()

    async def _send_piece(self, producer: Producer[Any, Any], piece: Piece) -> None:
        for number in piece.numbers:
            where = number % PARTITIONS
            source = self.job.source
            await producer.send(source, value_of(number), key=key_of(number), partition=where)

    def copy(self, worker: int) -> None:
        is_share = self.job.case["group"] == "share"
        asyncio.run(self._copy_by_share() if is_share else self._copy(worker))

    async def _copy(self, worker: int) -> None:
        while not self.job.stop.is_set():
            try:
                await self._copy_once(worker)
            except (FatalTransactionError, KafkaError) as error:
                self.job.note(error)

    async def _copy_once(self, worker: int) -> None:
        job = self.job
        consumer: Consumer[Any, Any] = Consumer({
            **job.door.ours(), "group.id": job.name, "group.protocol": job.case["group"],
            "auto.offset.reset": "earliest", "isolation.level": job.case["isolation"],
            "enable.auto.commit": "false", "metadata.max.age.ms": "1000",
            **({} if job.case["group"] == "consumer" else {
                "session.timeout.ms": str(_SESSION_MS), "heartbeat.interval.ms": "1000"}),
        })  # fmt: skip
        async with self._producer(f"copier-{worker}") as producer, consumer:
            await consumer.subscribe([job.source, *job.also_read])
            while not job.stop.is_set():
                if job.is_transactional:

                    async def copy(_: Transaction) -> None:
                        await self._copy_piece(consumer, producer)

                    await producer.run_transaction(copy, consumer)
                elif await self._copy_piece(consumer, producer):
                    await producer.flush()
                    await consumer.commit()

    async def _copy_piece(self, consumer: Consumer[Any, Any], producer: Producer[Any, Any]) -> int:
        count = 0
        for part in await consumer.poll(_IDLE_S, max_records=_PIECE):
            if part.topic == self.job.source:
                for each in part.records:
                    target, where = self.job.target, part.partition
                    await producer.send(target, each.value, key=each.key, partition=where)
                    count += 1
        return count

    async def _copy_by_share(self) -> None:
        job = self.job
        settings = {**job.door.ours(), "group.id": job.name, "metadata.max.age.ms": "1000"}
        async with (
            self._producer("copier") as producer,
            ShareConsumer([job.source, *job.also_read], settings) as consumer,
        ):
            while not job.stop.is_set():
                try:
                    for each in await consumer.poll(_IDLE_S):
                        if each.topic == job.source:
                            sent = (job.target, each.value)
                            await producer.send(*sent, key=each.key, partition=each.partition)
                    await producer.flush()
                except KafkaError as error:
                    job.note(error)


class _Aborted(Exception):
    """Ends a transaction of the source."""


class Librdkafka(Library):
    def _door(self) -> dict[str, Any]:
        """If all of its connections have ended at once it makes its brokers anew, by default, and a
        `send_offsets_to_transaction` waits for one of before for ever (its issue 5511)."""
        recovery = {"metadata.recovery.strategy": "none"} if self.job.is_transactional else {}
        return {**self.job.door.librdkafka(), **recovery}

    def _producer(self, ending: str) -> Any:
        import confluent_kafka

        job = self.job
        producer = confluent_kafka.Producer({
            **self._door(), "linger.ms": 0, "batch.size": job.batch_bytes, "acks": "all",
            "max.in.flight": job.flight,
            "compression.type": job.case["codec"], "client.id": job.name,
            "enable.idempotence": job.is_idempotent,
            **({"transactional.id": f"{job.name}-{ending}", "transaction.timeout.ms": _TIMEOUT_MS}
               if job.is_transactional else {}),
        })  # fmt: skip
        if job.is_transactional:
            producer.init_transactions(WAIT_S)
        return producer

    def send(self, pieces: Sequence[Piece]) -> None:
        producer = self._producer("source")
        for piece in pieces:
            if self.job.is_transactional:
                producer.begin_transaction()
            for number in piece.numbers:
                producer.produce(
                    self.job.source, value_of(number), key_of(number), number % PARTITIONS
                )
            if self.job.is_transactional:
                if piece.is_aborted:
                    producer.flush(WAIT_S)
                    producer.abort_transaction(WAIT_S)
                else:
                    producer.commit_transaction(WAIT_S)
        assert producer.flush(WAIT_S) == 0

    def copy(self, worker: int) -> None:
        import confluent_kafka

        while not self.job.stop.is_set():
            try:
                self._copy_once(confluent_kafka, worker)
            except confluent_kafka.KafkaException as error:
                self.job.note(error)

    def _copy_once(self, library: Any, worker: int) -> None:
        job = self.job
        is_classic = job.case["group"] == "classic"
        timeouts = {"session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": 1000}
        consumer = library.Consumer({
            **self._door(), "group.id": job.name, "group.protocol": job.case["group"],
            "auto.offset.reset": "earliest", "isolation.level": job.case["isolation"],
            "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 1000,
            **(timeouts if is_classic else {}),
        })  # fmt: skip
        producer = None
        try:
            producer = self._producer(f"copier-{worker}")
            consumer.subscribe([job.source, *job.also_read])
            while not job.stop.is_set():
                found = [each for each in consumer.consume(_PIECE, _IDLE_S) if not each.error()]
                if found:
                    self._copy_piece(consumer, producer, found)
        finally:
            consumer.close()

    def _copy_piece(self, consumer: Any, producer: Any, found: Sequence[Any]) -> None:
        if self.job.is_transactional:
            producer.begin_transaction()
        for each in found:
            if each.topic() == self.job.source:
                producer.produce(self.job.target, each.value(), each.key(), each.partition())
        if self.job.is_transactional:
            offsets = consumer.position(consumer.assignment())
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, group, WAIT_S)
            producer.commit_transaction(WAIT_S)
            return
        assert producer.flush(WAIT_S) == 0
        consumer.commit(asynchronous=False)


class Aiokafka(Library):
    def _producer(self, ending: str) -> Any:
        import aiokafka

        job = self.job
        codec = job.case["codec"]
        return aiokafka.AIOKafkaProducer(
            **job.door.aiokafka(),
            acks="all",
            linger_ms=0,
            max_batch_size=job.batch_bytes,
            client_id=job.name,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=job.is_idempotent,
            **(
                {
                    "transactional_id": f"{job.name}-{ending}",
                    "transaction_timeout_ms": _TIMEOUT_MS,
                }
                if job.is_transactional
                else {}
            ),
        )

    def send(self, pieces: Sequence[Piece]) -> None:
        asyncio.run(self._send(pieces))

    async def _send(self, pieces: Sequence[Piece]) -> None:
        async with self._producer("source") as producer:
            for piece in pieces:
                if self.job.is_transactional:
                    await producer.begin_transaction()
                sent = [
                    await producer.send(
                        self.job.source, value_of(each), key_of(each), each % PARTITIONS
                    )
                    for each in piece.numbers
                ]
                await asyncio.gather(*sent)
                if self.job.is_transactional:
                    ends = producer.abort_transaction
                    await (ends if piece.is_aborted else producer.commit_transaction)()

    def copy(self, worker: int) -> None:
        asyncio.run(self._copy(worker))

    async def _copy(self, worker: int) -> None:
        import aiokafka.errors

        while not self.job.stop.is_set():
            try:
                await self._copy_once(worker)
            except aiokafka.errors.KafkaError as error:
                self.job.note(error)

    async def _copy_once(self, worker: int) -> None:
        import aiokafka

        job = self.job
        consumer = aiokafka.AIOKafkaConsumer(
            job.source,
            *job.also_read,
            **job.door.aiokafka(),
            group_id=job.name,
            auto_offset_reset="earliest",
            isolation_level=job.case["isolation"],
            enable_auto_commit=False,
            metadata_max_age_ms=1000,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=1000,
        )
        async with self._producer(f"copier-{worker}") as producer, consumer:
            while not job.stop.is_set():
                found = await consumer.getmany(timeout_ms=int(_IDLE_S * 1000), max_records=_PIECE)
                if any(found.values()):
                    await self._copy_piece(consumer, producer, found)

    async def _copy_piece(self, consumer: Any, producer: Any, found: Mapping[Any, Any]) -> None:
        job = self.job

        async def send() -> None:
            sent = [
                await producer.send(job.target, each.value, each.key, where.partition)
                for where, records in found.items()
                if where.topic == job.source
                for each in records
            ]
            await asyncio.gather(*sent)

        if not job.is_transactional:
            await send()
            await consumer.commit()
            return
        async with producer.transaction():
            await send()
            offsets = {where: records[-1].offset + 1 for where, records in found.items() if records}
            await producer.send_offsets_to_transaction(offsets, job.name)


LIBRARIES: Final[Mapping[str, type[Library]]] = {
    "ours": Ours,
    "librdkafka": Librdkafka,
    "aiokafka": Aiokafka,
}
