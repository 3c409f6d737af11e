"""One instance of a transactional client, as real ones are: it retries, continues with another
epoch, and is fenced by a later instance with the same id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, Protocol, TypeVar

from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import is_exhausted
from moldau.errors.codes import ErrorCode, KafkaError
from tests.broker.cluster.transactional.ledger import Attempt, Ledger, Place, Promise
from tests.broker.cluster.transactional.wire import NO_MEMBER, Member, Wire
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.simulation.promises import demand

T = TypeVar("T")

TOPIC: Final = "t"
KEYED: Final = "keyed"
PARTITIONS: Final = 3
PATIENCE_S: Final = 8.0
"""How long a request is repeated before the transaction is given up."""
AGAIN: Final = frozenset(
    (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)
FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING))


class Run(Protocol):
    """The run that an instance is part of."""

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


class Instance:
    """One instance with a transactional id. It keeps its epoch and its sequences."""

    def __init__(self, run: Run, wire: Wire, random: Random) -> None:
        self.wire = wire
        self.producer: Producer | None = None
        self.needs_epoch = False
        self._run = run
        self._random = random
        self._sequences: dict[Place, int] = {}

    async def _repeat(self, attempt: Callable[[], Awaitable[T]], *, for_ever: bool = False) -> T:
        """Until it is answered otherwise than by an error that a client retries."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if error.code in FENCED:
                    raise Fenced from error
                if not (error.retriable or error.code in AGAIN):
                    raise GivenUp(error.code.name) from error
                if self.wire.version < 2:
                    self.needs_epoch = True  # a copy of the request may still be on its way
            if loop.time() > until and (not for_ever or self._run.is_ending):
                raise GivenUp("patience")
            await asyncio.sleep(self._random.uniform(0.02, 0.2))

    async def init(self) -> None:
        """Get a producer as a new instance, or the next epoch as one that continues (KIP-360)."""
        before = self.producer
        self.needs_epoch = False
        try:
            producer = await self._repeat(lambda: self.wire.init(before), for_ever=True)
        except GivenUp as error:
            raise Fenced from error
        demand(
            not is_exhausted(producer.epoch - 1) and producer.epoch >= 0,
            Promise.EPOCH_OF_CLIENT,
            producer=producer,
        )
        self._run.ledger.given(self.wire.transactional_id, self, before, producer)
        self._take(producer)

    def _take(self, producer: Producer) -> None:
        if producer != self.producer:
            self._sequences = {}
        self.producer = producer

    @property
    def current(self) -> Producer:
        """The producer, which must be there."""
        assert self.producer is not None, "begin with init"
        return self.producer

    def place_record(
        self, attempt: Attempt, place: Place, number: int, key: str | None = None
    ) -> tuple[str, str]:
        """Return the key and the value of a record that is about to be sent."""
        index = number * 10 + (place[1] if place[0] == TOPIC else 9)
        value = f"{attempt.transactional_id}/{attempt.number}/{index}"
        if key is None:
            key = f"{attempt.transactional_id}-{self._random.randrange(2)}"
        self._run.ledger.sending(attempt, value, place)
        return key, value

    def acknowledge(self, attempt: Attempt, place: Place, key: str, value: str) -> None:
        """Note that a record is in the log."""
        self._run.ledger.acknowledged(attempt, value)
        if place[0] == KEYED:
            attempt.keys[key] = value

    def next_sequence(self, place: Place) -> int:
        """Return the sequence of the next record to a partition, and count it as sent."""
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + 1
        return sequence

    async def join(self, place: Place) -> None:
        """Add a partition to the transaction, if the client has to do that itself."""
        producer, wire = self.current, self.wire
        if wire.version < 2:
            await self._repeat(lambda: wire.join(producer, place))

    def request(
        self, attempt: Attempt, place: Place, number: int, key: str | None = None
    ) -> Callable[[], Awaitable[None]]:
        """Return the request that writes one record, to be sent once, again, or late."""
        producer, wire = self.current, self.wire
        of_key, value = self.place_record(attempt, place, number, key)
        sequence = self._sequences.get(place, 0)
        row = (of_key.encode(), value.encode())

        async def send() -> None:
            await wire.produce(producer, place, sequence, [row])
            self.acknowledge(attempt, place, of_key, value)

        return send

    async def write(
        self, attempt: Attempt, place: Place, number: int, key: str | None = None
    ) -> None:
        """Write one record of the transaction."""
        await self.join(place)
        await self._repeat(self.request(attempt, place, number, key))
        self._sequences[place] = self._sequences.get(place, 0) + 1

    async def commit_offset(
        self, attempt: Attempt, group: str | None = None, member: Member = NO_MEMBER
    ) -> None:
        """Commit the number of the attempt as an offset of the group, with the transaction."""
        producer, wire, of = self.current, self.wire, group or attempt.transactional_id
        if wire.version < 2:
            await self._repeat(lambda: wire.join_offsets(producer, of))
        place = TOPIC, 0
        await self._repeat(lambda: wire.commit_offset(producer, of, place, attempt.number, member))
        attempt.offset = attempt.number

    async def stay(self, group: str, member: Member) -> Member:
        """Join a group with epoch 0, or stay in it."""
        return await self._repeat(lambda: self.wire.stay(group, member))

    async def end(self, *, commit: bool) -> None:
        """End the transaction, and continue with the producer of the answer."""
        producer, wire = self.current, self.wire
        if wire.version < 2 and not commit and self.needs_epoch:
            return  # the next epoch ends it
        self._take(await self._repeat(lambda: wire.end(producer, commit=commit), for_ever=True))
