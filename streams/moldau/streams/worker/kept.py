"""What an app keeps in a topic beside its state: its topology, and the versions of its stores.

Invariants: a worker of a store that has ever had another version knows of it before it reads a row;
the topology only warns of mistakes, so a worker that may not use the topic does without it, unless
stores of the app have versions. One that gets no answer waits: there may be versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from moldau.client import KafkaError, TopicPartition
from moldau.errors.codes import RIGHT_MISSING, ErrorCode
from moldau.streams.engine.batches import Outputs
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.store_versions import StoreVersion, version_key, versions_in
from moldau.streams.plan.topics import topology_topic
from moldau.streams.plan.topology import KEY, Topology
from moldau.streams.problems import StateError
from moldau.streams.worker.door import Door, TopicFacts
from moldau.streams.worker.reports import Reports

_APPEAR_POLL_S: Final = 0.1
_KEPT_WAIT_S: Final = 30.0
"""How long the start waits for the kept topology, and for the topic that keeps it."""


async def appeared(
    door: Door, names: Iterable[str], is_stopping: Callable[[], bool]
) -> dict[str, TopicFacts]:
    """Wait for the topics and return their facts: brokers learn of them at different times."""
    wanted = set(names)
    while True:
        found = await door.topics(wanted)
        if len(found) == len(wanted) or is_stopping():
            return found
        await asyncio.sleep(_APPEAR_POLL_S)


class KeptTopology:
    """The records of the topic, by key. What was read is not read again."""

    def __init__(
        self, plan: Plan, door: Door, reports: Reports, is_stopping: Callable[[], bool]
    ) -> None:
        self.topic = topology_topic(plan.app)
        self.is_stopping = is_stopping
        self._where = TopicPartition(self.topic, 0)
        stores = [store for program in plan.programs for store in program.stores]
        self._has_versions = any(store.version > 1 for store in stores)
        self._door = door
        self._reports = reports
        self._is_refused = False
        self._is_there = False
        self._end = -1
        """The end of the topic when it was read last."""
        self._is_first = False
        """Whether the topic was empty before this worker wrote into it."""
        self._records: dict[bytes | None, bytes | None] = {}

    async def read(self) -> Topology | None:
        """Return the topology; None if none is kept. Wait for it as long as there is no answer: a
        transaction of a worker that was killed may be open there."""
        while True:
            try:
                async with asyncio.timeout(_KEPT_WAIT_S):
                    return await self._topology()
            except (KafkaError, TimeoutError) as error:
                if isinstance(error, KafkaError) and error.code in RIGHT_MISSING:
                    self._refuse(error)
                    return None
                if not _is_passing(error):
                    raise StateError(
                        f"topic {self.topic} cannot be read: {_reason(error)}; it says which "
                        "version the rows of stores have"
                    ) from error
                self._reports.topology_awaited(self.topic, _reason(error))
            if self.is_stopping():
                return None
            await asyncio.sleep(_APPEAR_POLL_S)

    async def _topology(self) -> Topology | None:
        self._is_there = bool(await self._door.topics([self.topic]))
        if not self._is_there:
            return None
        _, end = (await self._door.ends([self._where]))[self._where]
        records = await self._read(end)
        return None if records is None else Topology.decoded(records.get(KEY))

    async def write(self, layout: Layout, now: Topology) -> None:
        """Keep this topology from now on. If the topic is there and cannot be written, versions
        are read from it all the same. Raise StateError if it is not known whether it is there."""
        if self._is_refused:
            return
        try:
            async with asyncio.timeout(_KEPT_WAIT_S):
                await self._make(layout)
                self._is_there = True
            await self._door.committer.keep(self.topic, KEY, now.encoded())
            self._is_first = self._end <= 0
        except (KafkaError, TimeoutError) as error:
            if not self._is_there and _is_passing(error):
                raise StateError(
                    f"topic {self.topic} cannot be made: {_reason(error)}; another worker may have "
                    "made it, and it says which version the rows of stores have: start again"
                ) from error
            self._refuse(error, is_readable=self._is_there)

    def sources(self) -> list[TopicPartition]:
        """Return the partition of the topic; none if it cannot be used."""
        return [] if self._is_refused else [self._where]

    async def versions(self, end: int) -> dict[tuple[str, int], StoreVersion] | None:
        """Return the versions of the rows of stores, by store and partition, of the topic that ends
        there. Wait for transactions that may change them. None if the worker stops meanwhile."""
        # Of a topic with the topology alone, and the marker of its transaction if there is one.
        if self._is_first and end <= (2 if self._door.committer.is_atomic else 1):
            return {}
        records = await self._read(end)
        return None if records is None else versions_in(records)

    def noted(self, store: str, partition: int, at: StoreVersion, now_ms: int) -> Outputs:
        """Return the record of a version, to be sent in the transaction that makes it true."""
        key = version_key(store, partition)
        return Outputs(self.topic, [key], [at.encoded()], [now_ms], partitions=[0])

    async def note(self, store: str, partition: int, at: StoreVersion) -> None:
        """Write the record of a version at once."""
        await self._door.committer.keep(self.topic, version_key(store, partition), at.encoded())

    async def _read(self, end: int) -> Mapping[bytes | None, bytes | None] | None:
        if end != self._end:
            found = await self._door.last_values(self._where, self.is_stopping)
            if found is None:
                return None
            self._records, self._end = found, end
        return self._records

    async def _make(self, layout: Layout) -> None:
        if not await self._door.topics([self.topic]):
            await self._door.make([each for each in layout.internal if each.name == self.topic])
            await appeared(self._door, [self.topic], self.is_stopping)

    def _refuse(self, error: KafkaError | TimeoutError, *, is_readable: bool = False) -> None:
        if self._has_versions:
            raise StateError(
                f"topic {self.topic} cannot be used: {_reason(error)}; it says which version the "
                "rows of stores have: make it usable, or leave out version=... of the stores"
            ) from error
        self._is_refused = not is_readable
        self._reports.topology_not_kept(self.topic, _reason(error))


def _is_passing(error: KafkaError | TimeoutError) -> bool:
    """Whether another attempt may help. The client calls it final that no broker can be reached,
    but a broker may come back."""
    if isinstance(error, TimeoutError) or error.retriable:
        return True
    return error.code is ErrorCode.BROKER_NOT_AVAILABLE


def _reason(error: KafkaError | TimeoutError) -> str:
    return str(error) or f"no answer within {_KEPT_WAIT_S:g} s"
