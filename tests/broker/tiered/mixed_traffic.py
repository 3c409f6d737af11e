"""Idempotent and transactional producers of a tiered topic, and what its readers must see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final, Literal, TypeAlias

from moldau.client import (
    AbortableTransactionError,
    Consumer,
    FatalTransactionError,
    Producer,
    TopicPartition,
)
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from moldau.testing.anomalies import find_anomalies
from moldau.testing.history import Ended, Event, Moved, Outcome, Read, ReadAll, Sent
from tests.broker.cluster.transactional.clients import IMPATIENT, retried
from tests.broker.network.virtual_pause import after

IN_FLIGHT: Final = 5
Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
COMMITTED: Final = "read_committed"
ALL_RECORDS: Final = "read_uncommitted"
_PAD: Final = "." * 180


class MixedTraffic:
    """The producers of one topic, and the history that they and the readers write down.

    Every record is of some producer's sequence, so readers must see each that was acknowledged
    once, in order: all of them, and of committed ones no record of a transaction that was aborted.
    """

    def __init__(self, servers: str, topic: str, partitions: int, seed: int = 1) -> None:
        self.servers = servers
        self.topic = topic
        self.places = [TopicPartition(topic, index) for index in range(partitions)]
        self.pause_s = 0.02
        self.is_ending = False
        self.acknowledged = 0
        self.sent: list[Sent] = []
        self.ends: list[Event] = []
        """Of transactions."""
        self.reads: dict[str, list[Event]] = {COMMITTED: [], ALL_RECORDS: []}
        self._random = Random(seed)
        self._transactions = 0

    # Producers.

    async def produce(self, runtime: Runtime, name: str = "plain") -> None:
        """Write with several records on their way, until the end."""
        async with Producer(
            runtime=runtime, bootstrap_servers=self.servers, acks="all", linger_ms=0
        ) as producer:
            waiting: set[int] = set()
            while not self.is_ending:
                if len(waiting) < IN_FLIGHT:
                    await self._send(producer, name, waiting=waiting)
                await after(self.pause_s)

    async def transact(self, runtime: Runtime, name: str = "transactional") -> None:
        """Write in transactions, of which some are aborted, until the end."""
        while not self.is_ending:
            try:
                async with Producer(
                    {**IMPATIENT, "transaction.timeout.ms": 4_000},
                    runtime=runtime,
                    bootstrap_servers=self.servers,
                    transactional_id=name,
                ) as producer:
                    while not self.is_ending:
                        await self._transact(producer, name)
                        await after(self.pause_s)
            except FatalTransactionError:
                pass
            except KafkaError:
                await after(0.1)

    async def _transact(self, producer: Producer, name: str) -> None:
        await retried(producer.begin_transaction)
        self._transactions += 1
        transaction, outcome = f"{name}-{self._transactions}", Outcome.FAILED
        try:
            for _ in range(self._random.randint(1, 8)):
                await self._send(producer, name, transaction)
                await after(self.pause_s)
            if self._random.random() < 0.6:
                outcome = Outcome.UNKNOWN
                await retried(producer.commit_transaction)
                outcome = Outcome.ACKNOWLEDGED
            else:
                await retried(producer.abort_transaction)
        except AbortableTransactionError:
            outcome = Outcome.FAILED
            await retried(producer.abort_transaction)
        except FatalTransactionError:
            raise
        except KafkaError:
            if outcome is not Outcome.FAILED:
                raise
            await retried(producer.abort_transaction)
        finally:
            self.ends.append(Ended(transaction, outcome))

    async def _send(
        self, producer: Producer, name: str, transaction: str = "", waiting: set[int] | None = None
    ) -> None:
        place = self._random.choice(self.places)
        number = len(self.sent)
        value = f"{name}/{number}{_PAD}"
        self.sent.append(
            Sent(name, _named(place), value, outcome=Outcome.UNKNOWN, transaction=transaction)
        )
        waiting = set() if waiting is None else waiting
        waiting.add(number)
        delivered = self._delivered(number, waiting)
        await producer.send(
            place.topic, value.encode(), partition=place.partition, on_delivery=delivered
        )

    def _delivered(self, number: int, waiting: set[int]) -> Callable[[Any, Any], None]:
        def on_delivery(sent: Any, error: Any) -> None:
            waiting.discard(number)
            if error is None:
                self.acknowledged += 1
                self.sent[number] = replace(
                    self.sent[number], offset=sent.offset, outcome=Outcome.ACKNOWLEDGED
                )

        return on_delivery

    # Readers.

    async def read_all(
        self, runtime: Runtime, rack: str = "", isolation: Isolation = COMMITTED
    ) -> None:
        """Read everything from the first record on."""
        reader, events = f"{isolation} {rack} {len(self.reads[isolation])}", self.reads[isolation]
        events += [Moved(reader, _named(each)) for each in self.places]
        async with Consumer(
            runtime=runtime,
            bootstrap_servers=self.servers,
            auto_offset_reset="none",
            client_rack=rack,
            isolation_level=isolation,
        ) as consumer:
            consumer.assign(self.places)
            for each in self.places:
                consumer.seek(each, 0)
            ends = await consumer.end_offsets(self.places)
            while any((consumer.position(each) or 0) < ends[each] for each in self.places):
                for part in await consumer.poll(0.2):
                    name = _named(TopicPartition(part.topic, part.partition))
                    events += [
                        Read(reader, name, each.offset, bytes(each.value or b"").decode())
                        for each in part.records
                    ]
        events.append(ReadAll(reader))

    # Judgement.

    def check(self) -> None:
        """No reader saw what it must not see, or missed something."""
        every = [replace(each, transaction="") for each in self.sent]
        found = find_anomalies([*every, *self.reads[ALL_RECORDS]])
        found += find_anomalies([*self.sent, *self.ends, *self.reads[COMMITTED]])
        assert not found, "\n".join(f"{each!s:.400}" for each in found[:20])

    def count(self, outcome: Outcome) -> int:
        """Return how many transactions ended so."""
        return sum(isinstance(each, Ended) and each.outcome is outcome for each in self.ends)


def _named(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


def racks(numbers: Sequence[int]) -> list[str]:
    """Return the racks of brokers; a client in one of them reads from that broker."""
    return [f"r{number}" for number in numbers]
