"""Clients that ask for the ends of partitions, and the promise that no end is too low.

What an answer is judged by was true before its request left: everything below `Watch.committed`
was committed, and records that were acknowledged to a producer with acks=all are among it. A last
stable offset is judged by those that were answered before.

An old leader that has not heard of its successor answers for its own epoch, as in Kafka: such an
answer is not judged. It has the epoch in it, so a client with newer metadata knows it for old.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.runtime import Runtime
from moldau.testing.simulated_cluster import PORT
from tests.broker.cluster.invariants import Invariant, Watch
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.server.wire import Wire, wired
from tests.broker.simulation.promises import demand

Place = tuple[str, int]
LATEST: Final = -1
VERSIONS: Final = range(4, 12)
"""Those with the leader's epoch in the answer."""
READ_UNCOMMITTED: Final = 0
_UNKNOWN: Final = frozenset((ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE))
_PAUSE_S: Final = 0.1
_SOON_S: Final = 0.01
_PATIENCE_S: Final = 1.0


class EndReader:
    """Asks for the ends of some partitions, again and again; often their leaders."""

    def __init__(
        self,
        brokers: SimulatedBrokers,
        watch: Watch,
        places: Sequence[Place],
        random: Random,
        is_over: Callable[[], bool],
    ) -> None:
        """`watch` looks after the partitions. `read` ends soon after `is_over`."""
        self.counts: Counter[str] = Counter()
        self._brokers = brokers
        self._watch = watch
        self._places = places
        self._random = random
        self._is_over = is_over
        self._stable: dict[Place, int] = {}

    async def read(self, runtime: Runtime) -> None:
        """Ask until it is over."""
        while not self._is_over():
            place = self._random.choice(self._places)
            leader = self._brokers.leader_of(*place)
            known = [leader, leader] if leader > 0 else []
            number = self._random.choice([*known, *self._brokers.broker_ids])
            try:
                async with wired(runtime, f"b{number}", PORT) as wire:
                    while await self._ask(wire, place) and not self._is_over():  # noqa: ASYNC110
                        await asyncio.sleep(_PAUSE_S)
            except (OSError, EOFError):
                pass
            await asyncio.sleep(_SOON_S)

    async def _ask(self, wire: Wire, place: Place) -> bool:
        """Return whether there was an end."""
        isolation_level = self._random.choice((0, 1))
        epoch, floor = self._watch.committed(place)
        if isolation_level != READ_UNCOMMITTED:
            floor = self._stable.get(place, 0)
        row = ListOffsetsPartition(partition_index=place[1], timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=place[0], partitions=[row])],
        )
        try:
            async with asyncio.timeout(_PATIENCE_S):
                version = self._random.choice(VERSIONS)
                answer = await wire.ask(request, ListOffsetsResponse, version)
        except TimeoutError:
            return False
        found = answer.topics[0].partitions[0]
        self.counts["unknown ends"] += found.error_code in _UNKNOWN
        if found.error_code:
            return False
        if found.leader_epoch >= epoch:
            self._judge(place, isolation_level, floor, found)
        return True

    def _judge(
        self, place: Place, isolation_level: int, floor: int, found: ListOffsetsPartitionResponse
    ) -> None:
        self.counts["known ends"] += 1
        demand(
            found.offset >= floor,
            Invariant.END_IS_KNOWN,
            partition=place,
            isolation_level=isolation_level,
            leader_epoch=found.leader_epoch,
            end=found.offset,
            known=floor,
        )
        if isolation_level != READ_UNCOMMITTED:
            self._stable[place] = max(found.offset, self._stable.get(place, 0))
