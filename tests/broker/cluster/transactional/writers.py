"""Transactional writers as real clients are: they retry, abort, continue with another epoch, and
are fenced by a second instance with the same id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, Protocol, TypeVar

from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import is_exhausted
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from tests.broker.cluster.transactional.ledger import Attempt, End, Ledger, Place, Promise
from tests.broker.cluster.transactional.wire import Wire
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.simulation.promises import demand

T = TypeVar("T")

TOPIC: Final = "t"
KEYED: Final = "keyed"
PARTITIONS: Final = 3
PATIENCE_S: Final = 8.0
"""How long a request is repeated before the transaction is given up."""
_AGAIN: Final = frozenset(
    (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)
_FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING))


class Run(Protocol):
    """The run that a writer is part of."""

    brokers: SimulatedBrokers
    ledger: Ledger
    is_ending: bool
    pause_s: float
    lates: float
    idles: float
    """The share of pauses that are long enough for ids to expire."""


class Fenced(Exception):
    """Another instance has taken over, or the id has expired: begin as a new instance."""


class GivenUp(Exception):
    """The transaction cannot go on: abort it."""


def drawn_places(random: Random) -> list[Place]:
    """The partitions that a transaction writes to."""
    places = [(TOPIC, index) for index in range(PARTITIONS) if random.random() < 0.6]
    if random.random() < 0.4:
        places.append((KEYED, 0))
    return places


class Writer:
    """One instance with a transactional id."""

    def __init__(self, run: Run, transactional_id: str, version: int, random: Random) -> None:
        self._run = run
        self._id = transactional_id
        self._version = version
        self._random = random
        self._wire: Wire
        self._producer: Producer | None = None
        self._sequences: dict[Place, int] = {}
        self._needs_epoch = False

    async def main(self, runtime: Runtime) -> None:
        run, random = self._run, self._random
        self._wire = Wire(runtime, run.brokers, self._id, self._version, random)
        self._wire.timeout_ms = random.choice((1_500, 4_000, 9_000))
        self._wire.lates = run.lates
        while not run.is_ending:
            try:
                if self._producer is None:
                    await self._init(None)
                elif self._needs_epoch:
                    await self._init(self._producer)
                await self._transact()
            except Fenced:
                run.ledger.counts["fenced"] += 1
                self._producer = None
                await asyncio.sleep(random.uniform(0.5, 4.0))
            except GivenUp:
                self._needs_epoch = self._producer is not None
                run.ledger.counts["given up"] += 1
            await asyncio.sleep(run.pause_s * random.random())
            if random.random() < run.idles:
                await asyncio.sleep(random.uniform(1.0, 5.0))
        run.ledger.counts["late copies"] += self._wire.copies
        await self._wire.aclose()

    async def _repeat(self, attempt: Callable[[], Awaitable[T]], *, for_ever: bool = False) -> T:
        """Until it is answered otherwise than by an error that a client retries."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if error.code in _FENCED:
                    raise Fenced from error
                if not (error.retriable or error.code in _AGAIN):
                    raise GivenUp(error.code.name) from error
                if self._version < 2:
                    self._needs_epoch = True  # a copy of the request may still be on its way
            if loop.time() > until and (not for_ever or self._run.is_ending):
                raise GivenUp("patience")
            await asyncio.sleep(self._random.uniform(0.02, 0.2))

    async def _init(self, before: Producer | None) -> None:
        self._needs_epoch = False
        try:
            producer = await self._repeat(lambda: self._wire.init(before), for_ever=True)
        except GivenUp as error:
            raise Fenced from error
        demand(
            not is_exhausted(producer.epoch - 1) and producer.epoch >= 0,
            Promise.EPOCH_OF_CLIENT,
            producer=producer,
        )
        self._take(producer)

    def _take(self, producer: Producer) -> None:
        if producer != self._producer:
            self._sequences = {}
        self._producer = producer

    async def _transact(self) -> None:
        random, ledger = self._random, self._run.ledger
        attempt = ledger.begin(self._id)
        is_commit = random.random() < 0.7
        is_asked = False
        try:
            try:
                await self._fill(attempt)
            except GivenUp:
                is_commit = False
                if self._version < 2:
                    self._needs_epoch = True
            if not attempt.records and attempt.offset is None:
                is_commit = False
            is_asked = is_commit
            await self._end(commit=is_commit)
        except (Fenced, GivenUp):
            ledger.ended(attempt, End.UNKNOWN if is_asked else End.ABORTED)
            raise
        ledger.ended(attempt, End.COMMITTED if is_commit else End.ABORTED)

    async def _fill(self, attempt: Attempt) -> None:
        random = self._random
        places = drawn_places(random)
        for number in range(random.randint(1, 3)):
            for place in places:
                await self._write(attempt, place, number)
        if random.random() < 0.4:
            await self._commit_offset(attempt)

    async def _write(self, attempt: Attempt, place: Place, number: int) -> None:
        producer, wire, random = self._producer, self._wire, self._random
        assert producer is not None
        index = number * 10 + (place[1] if place[0] == TOPIC else 9)
        value = f"{attempt.transactional_id}/{attempt.number}/{index}"
        key = f"{attempt.transactional_id}-{random.randrange(2)}"
        if self._version < 2:
            await self._repeat(lambda: wire.join(producer, place))
        self._run.ledger.sending(attempt, value, place)
        sequence = self._sequences.get(place, 0)
        row = (key.encode(), value.encode())
        await self._repeat(lambda: wire.produce(producer, place, sequence, [row]))
        self._sequences[place] = sequence + 1
        self._run.ledger.acknowledged(attempt, value)
        if place[0] == KEYED:
            attempt.keys[key] = value

    async def _commit_offset(self, attempt: Attempt) -> None:
        producer, wire, group = self._producer, self._wire, attempt.transactional_id
        assert producer is not None
        if self._version < 2:
            await self._repeat(lambda: wire.join_offsets(producer, group))
        place = TOPIC, 0
        await self._repeat(lambda: wire.commit_offset(producer, group, place, attempt.number))
        attempt.offset = attempt.number

    async def _end(self, *, commit: bool) -> None:
        producer, wire = self._producer, self._wire
        assert producer is not None
        if self._version < 2 and not commit and self._needs_epoch:
            return  # the next epoch ends it
        self._take(await self._repeat(lambda: wire.end(producer, commit=commit), for_ever=True))
