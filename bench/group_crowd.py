"""Measures how soon the consumers of one group share all partitions, in three acts.

All members join at once; one leaves; another one joins. They are our client's consumers, all in the
measuring process, against any broker. Partitions are paused when they are assigned, so that the
measurement shows how the group finds its assignment, and no fetching.

An act ends when each partition has one owner and each member has at least its share, rounded down.
This is the end for assignors that balance (`roundrobin`, `cooperative-sticky`, `uniform`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from bench.peer_brokers import HOST
from moldau.client import Admin, Consumer, NewTopic, RebalanceListener, TopicPartition
from moldau.runtime import Runtime

MEMBERS: Final = 50
TOPICS: Final = tuple(f"shared-{number}" for number in range(10))
PARTITIONS_A_TOPIC: Final = 50
PARTITIONS: Final = len(TOPICS) * PARTITIONS_A_TOPIC

HEARTBEAT_MS: Final = 100
"""The shortest possible interval: how soon members learn of a change is not measured."""

ACT_SECONDS_MAX: Final = 60.0
TIMES: Final = 10
PAUSE_SECONDS: Final = 0.2
"""The pause between two acts."""
TARGET_PAUSE_SECONDS: Final = 1.2
"""The same if the broker assigns: longer than `group.consumer.assignment.interval.ms`."""

PROTOCOLS: Final[Mapping[str, Mapping[str, object]]] = {
    "eager": {"partition.assignment.strategy": "roundrobin", "heartbeat.interval.ms": HEARTBEAT_MS},
    "cooperative": {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": HEARTBEAT_MS,
    },
    "KIP-848": {"group.protocol": "consumer"},
}


@dataclass(frozen=True, slots=True)
class Acts:
    """The seconds of each act. The last two are averages."""

    all_join: float
    one_leaves: float
    one_joins: float


class _Member(RebalanceListener):
    """Notes which partitions a consumer owns."""

    def __init__(self, consumer: Consumer, on_change: Callable[[], None]) -> None:
        self.consumer = consumer
        self.owned: set[TopicPartition] = set()
        self._on_change = on_change

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.owned.update(partitions)
        self.consumer.pause(partitions)
        self._on_change()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.owned.difference_update(partitions)


class Crowd:
    """The members of a group."""

    def __init__(
        self, runtime: Runtime, port: int, group_id: str, protocol: str, size: int = MEMBERS
    ) -> None:
        """`size` is the number of members in the first act."""
        self._runtime = runtime
        self._size = size
        self._chance = Random(group_id)
        is_assigned_by_broker = "group.protocol" in PROTOCOLS[protocol]
        self._pause = TARGET_PAUSE_SECONDS if is_assigned_by_broker else PAUSE_SECONDS
        self._options: dict[str, object] = {
            "bootstrap.servers": f"{HOST}:{port}",
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            **PROTOCOLS[protocol],
        }
        self._members: dict[_Member, asyncio.Task[None]] = {}
        self._waiting: list[_Member] = []
        self._shared_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def play(self) -> Acts:
        """Play the three acts, the last two several times, because their time depends on when
        members send their heartbeats. Afterwards the group has no members."""
        try:
            await self._connect(self._size)
            all_join = await self._until_shared(self._subscribe)
            leaving, joining = 0.0, 0.0
            for before_leaving, before_joining in zip(self._phases(), self._phases(), strict=True):
                await asyncio.sleep(before_leaving)
                leaving += await self._until_shared(self._one_leaves)
                await self._connect(1)
                await asyncio.sleep(before_joining)
                joining += await self._until_shared(self._subscribe)
            return Acts(all_join, leaving / TIMES, joining / TIMES)
        finally:
            await asyncio.gather(*(self._part(each) for each in list(self._members)))

    def _phases(self) -> list[float]:
        """Return the pauses before each repetition of an act. Members send heartbeats in step since
        the last act, and an act's time depends mostly on when in that step it begins. So acts begin
        at evenly spread times of it, in any order: with random times, two runs differed by 10 %."""
        step = HEARTBEAT_MS / 1000 / TIMES
        found = [self._pause + step * (number + 0.5) for number in range(TIMES)]
        self._chance.shuffle(found)
        return found

    async def _connect(self, count: int) -> None:
        """Connect that many more consumers, which do not join the group yet."""
        self._waiting = [
            _Member(Consumer(self._options, runtime=self._runtime), self._look)
            for _ in range(count)
        ]
        await asyncio.gather(*(each.consumer.start() for each in self._waiting))

    async def _subscribe(self) -> None:
        """Let the connected consumers join."""
        for member in self._waiting:
            self._members[member] = self._runtime.spawn(
                _live(member), name="member", reported=False
            )
        self._waiting = []

    async def _one_leaves(self) -> None:
        await self._part(next(iter(self._members)))

    async def _until_shared(self, act: Callable[[], Awaitable[None]]) -> float:
        self._shared_at = asyncio.get_running_loop().create_future()
        start = time.perf_counter()
        await act()
        return await asyncio.wait_for(self._shared_at, ACT_SECONDS_MAX) - start

    async def _part(self, member: _Member) -> None:
        task = self._members.pop(member)
        task.cancel()
        await asyncio.wait([task])
        await member.consumer.aclose()

    def _look(self) -> None:
        """End the act if all partitions are shared."""
        sizes = [len(each.owned) for each in self._members]
        if sum(sizes) != PARTITIONS or min(sizes) < PARTITIONS // len(sizes):
            return
        owned = set().union(*(each.owned for each in self._members))
        if len(owned) == PARTITIONS and not self._shared_at.done():
            self._shared_at.set_result(time.perf_counter())


async def _live(member: _Member) -> None:
    await member.consumer.subscribe(TOPICS, listener=member)
    while True:
        await member.consumer.poll(1.0)


async def make_topics(runtime: Runtime, port: int) -> None:
    """Create the topics that the members share."""
    async with Admin(bootstrap_servers=f"{HOST}:{port}", runtime=runtime) as admin:
        await admin.create_topics([NewTopic(name, PARTITIONS_A_TOPIC, 1) for name in TOPICS])
