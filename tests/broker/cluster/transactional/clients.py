"""Programs with the client of the house in a storm: writers that begin, send, commit and abort by
hand, and copiers that read one topic and write another in blocks that take the consumer.

A program is started again when it ends by an error, as its user would do, and when its machine was
killed: what the killed one had begun is then judged by whether it had asked for a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Final

from moldau.client import (
    AbortableTransactionError,
    Consumer,
    FatalTransactionError,
    GroupMetadata,
    Producer,
    RetriableTransactionError,
    TopicPartition,
    Transaction,
)
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from tests.broker.cluster.transactional.instance import KEYED, TOPIC, Run
from tests.broker.cluster.transactional.ledger import Attempt, End, Place, Promise
from tests.broker.cluster.transactional.writers import HELD_BACK, PIPELINED_SHARE, drawn_places
from tests.broker.simulation.promises import demand
from tests.client.choices import GroupProtocol

COPIES: Final = "copies"
GROUP: Final = "copiers"
IMPATIENT: Final[Mapping[str, Any]] = {
    "request.timeout.ms": 1_500,
    "default.api.timeout.ms": 20_000,
    "max.block.ms": 3_000,
    "delivery.timeout.ms": 4_000,
    "retry.backoff.ms": 50,
}
"""Requests are given up soon enough that what was sent before arrives later."""
PIPELINED: Final[Mapping[str, Any]] = {"linger.ms": 0, "batch.size": 100}
"""Each record is a batch, and several are in flight."""
SESSION: Final[Mapping[str, Any]] = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 300}


async def retried(call: Callable[[], Awaitable[None]]) -> None:
    """Make the same call again, as its error says."""
    while True:
        try:
            return await call()
        except RetriableTransactionError:
            await asyncio.sleep(0.05)


class ClientWriter:
    """One instance with a transactional id. Others may have the same one."""

    def __init__(self, run: Run, transactional_id: str, random: Random) -> None:
        self._run = run
        self._id = transactional_id
        self._random = random
        self._timeout_ms = random.choice((1_500, 4_000, 9_000))
        self._pipelines = random.random() < PIPELINED_SHARE
        self._open: Attempt | None = None
        self._asks_commit = False

    async def main(self, runtime: Runtime) -> None:
        """Write until the run ends."""
        run = self._run
        if self._open is not None:  # of the one that was killed
            self._ended(End.UNKNOWN if self._asks_commit else End.ABORTED)
        while not run.is_ending:
            try:
                await self._write(runtime)
            except FatalTransactionError:
                run.ledger.counts["fenced"] += 1
                await asyncio.sleep(self._random.uniform(0.5, 4.0))
            except KafkaError:
                await asyncio.sleep(0.1)

    async def _write(self, runtime: Runtime) -> None:
        run = self._run
        async with Producer(
            {
                **IMPATIENT,
                **(PIPELINED if self._pipelines else {}),
                "transaction.timeout.ms": self._timeout_ms,
            },
            runtime=runtime,
            bootstrap_servers=run.brokers.bootstrap_servers,
            transactional_id=self._id,
        ) as producer:
            while not run.is_ending:
                await self._transact(producer)
                if not self._pipelines or self._random.random() < HELD_BACK:
                    await asyncio.sleep(run.pause_s * self._random.random())
                if self._random.random() < run.idles:
                    await asyncio.sleep(self._random.uniform(1.0, 5.0))

    def _ended(self, end: End) -> None:
        if self._open is not None:
            self._run.ledger.ended(self._open, end)
            self._open = None

    async def _transact(self, producer: Producer) -> None:
        await retried(producer.begin_transaction)
        attempt = self._open = self._run.ledger.begin(self._id)
        self._asks_commit = False
        try:
            await self._fill(producer, attempt)
            if self._random.random() < 0.7:
                await self._commit(producer, attempt)
            else:
                await retried(producer.abort_transaction)
        except FatalTransactionError:
            self._ended(End.UNKNOWN if self._asks_commit else End.ABORTED)
            raise
        except AbortableTransactionError:
            self._ended(End.ABORTED)
            await retried(producer.abort_transaction)
        except KafkaError as error:
            if self._asks_commit:
                raise AssertionError("a commit has a kind of error of its own") from error
            self._ended(End.ABORTED)
            await retried(producer.abort_transaction)
        self._ended(End.COMMITTED if self._asks_commit else End.ABORTED)

    async def _commit(self, producer: Producer, attempt: Attempt) -> None:
        for value in attempt.records:  # a commit is asked for when all of them are there
            self._run.ledger.acknowledged(attempt, value)
        self._asks_commit = True
        await retried(producer.commit_transaction)

    async def _fill(self, producer: Producer, attempt: Attempt) -> None:
        random = self._random
        places = drawn_places(random)
        for number in range(random.randint(1, 12 if self._pipelines else 3)):
            for place in places:
                await self._send(producer, attempt, place, number)
            if not self._pipelines and random.random() < 0.5:
                await asyncio.sleep(random.uniform(0.0, 0.2))
        if random.random() < 0.4:
            group = GroupMetadata(self._id, -1, "", None)
            offsets = {TopicPartition(TOPIC, 0): attempt.number}
            await retried(lambda: producer.send_offsets(offsets, group))
            attempt.offset = attempt.number

    async def _send(self, producer: Producer, attempt: Attempt, place: Place, number: int) -> None:
        index = number * 10 + (place[1] if place[0] == TOPIC else 9)
        value = f"{attempt.transactional_id}/{attempt.number}/{index}"
        key = f"{attempt.transactional_id}-{self._random.randrange(2)}"
        self._run.ledger.sending(attempt, value, place)
        await producer.send(place[0], value.encode(), key=key.encode(), partition=place[1])
        if place[0] == KEYED:
            attempt.keys[key] = value


class Copies:
    """What copiers have to do, and what a reader must see of it: each committed record once."""

    def __init__(self, run: Run, protocol: GroupProtocol) -> None:
        self.run = run
        self.protocol = protocol
        self.is_ending = False

    def check(self, source: Mapping[int, list[str]], copied: Mapping[int, list[str]]) -> bool:
        """Whether all of `source` is copied; its partitions by index, as is read at the end."""
        for index, values in copied.items():
            expected = source[index][: len(values)]
            demand(values == expected, Promise.COPIED_ONCE, partition=index, copies=len(values))
        return copied == source


class Copier:
    """One instance of a program that copies."""

    def __init__(self, copies: Copies, transactional_id: str, random: Random) -> None:
        self._copies = copies
        self._id = transactional_id
        self._random = random

    async def main(self, runtime: Runtime) -> None:
        """Copy until the run ends."""
        counts = self._copies.run.ledger.counts
        while not self._copies.is_ending:
            try:
                await self._copy(runtime)
            except FatalTransactionError:
                counts["copier fenced"] += 1
                await asyncio.sleep(self._random.uniform(0.5, 4.0))
            except KafkaError:
                counts["copier failed"] += 1
                await asyncio.sleep(0.1)

    async def _copy(self, runtime: Runtime) -> None:
        servers = self._copies.run.brokers.bootstrap_servers
        producer = Producer(
            {**IMPATIENT, "transaction.timeout.ms": self._random.choice((2_500, 9_000))},
            runtime=runtime,
            bootstrap_servers=servers,
            transactional_id=self._id,
        )
        consumer = Consumer(
            {} if self._copies.protocol == "consumer" else SESSION,
            runtime=runtime,
            bootstrap_servers=servers,
            group_id=GROUP,
            group_protocol=self._copies.protocol,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            request_timeout_ms=1_500,
            default_api_timeout_ms=20_000,
        )

        async def work(transaction: Transaction) -> None:
            for part in await consumer.poll(0.2, max_records=10):
                for value in part.values():
                    await producer.send(COPIES, value, partition=part.partition)
                await asyncio.sleep(self._random.random() * 0.2)
            if self._random.random() < 0.1:
                transaction.abort()

        async with producer, consumer:
            await consumer.subscribe([TOPIC])
            while not self._copies.is_ending:
                await producer.run_transaction(work, consumer)
                self._copies.run.ledger.counts["copied in a transaction"] += 1
