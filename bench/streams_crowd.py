"""A thousand members of streams groups over plain sockets: how soon a broker answers heartbeats.

The members and their pace are those of `bench.group_wire`, with the requests of KIP-1071. Each
member of a group has one task of a topology without state, so that what is measured are the groups
and not the logs of internal topics.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Final

from bench.group_wire import CONSUMER_HEARTBEAT_SECONDS, Member, Steady
from bench.groups import STARTS
from bench.peer_brokers import HOST, BrokerProcess, resident_bytes
from bench.wire import request_bytes
from moldau.client import Admin, NewTopic
from moldau.ids import format_uuid
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)
from moldau.runtime import Runtime
from moldau.runtime.real import run

GROUPS: Final = 20
MEMBERS_A_GROUP: Final = 50
MEMBERS: Final = GROUPS * MEMBERS_A_GROUP
STEADY_SECONDS: Final = 30.0
SETTLING_SECONDS: Final = 6.0
TOPIC: Final = "steady"
PROPERTIES: Final = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.max.size": str(MEMBERS_A_GROUP),
    "socket.listen.backlog.size": "4096",
}
_VERSION: Final = 0
_FIND_VERSION: Final = 4
_SUBTOPOLOGY: Final = "0"


@dataclass(frozen=True, slots=True)
class Crowd:
    """What a broker needs for all members."""

    p99_s: float
    resident_mb: float


class StreamsWire(Member):
    """A member of a streams group, which notes how long its heartbeats take."""

    def __init__(self, group_id: str, number: int) -> None:
        super().__init__(group_id, number)
        self.member_id = format_uuid(os.urandom(16))
        self.times_s: list[float] = []
        self._sent: deque[float] = deque()

    async def step(self) -> bool:
        """Send a full heartbeat, as to join. Return whether the answer changed nothing and the
        member has its one task."""
        owned = [TaskIds(subtopology_id=_SUBTOPOLOGY, partitions=self.owned)] if self.owned else []
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=300_000,
            topology=None if self.epoch else _topology(),
            process_id=self.member_id,
            client_tags=[],
            active_tasks=owned,
            standby_tasks=[],
            warmup_tasks=[],
        )
        answer = await self.ask(request, _VERSION, StreamsGroupHeartbeatResponse)
        assert not answer.error_code, answer.error_message
        before = self.epoch, self.owned
        self.epoch = answer.member_epoch
        if (given := answer.active_tasks) is not None:
            self.owned = sorted(given[0].partitions) if given else []
        return before == (self.epoch, self.owned) and len(self.owned) == 1

    def encode_beat(self) -> None:
        """Encode the heartbeat that the member sends from now on."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=-1,
        )
        self.beat = request_bytes(request, _VERSION)

    def send_beat(self) -> None:
        """Send one heartbeat, and note when."""
        self._sent.append(time.perf_counter())
        super().send_beat()

    def _look_at(self, frame: bytes) -> None:
        super()._look_at(frame)
        self.times_s.append(time.perf_counter() - self._sent.popleft())


def _topology() -> Topology:
    read = Subtopology(
        subtopology_id=_SUBTOPOLOGY,
        source_topics=[TOPIC],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return Topology(epoch=0, subtopologies=[read])


async def _formed(port: int) -> list[StreamsWire]:
    """Form the groups. Return their members: one of each group, then the next of each."""
    loop = asyncio.get_running_loop()
    groups: list[list[StreamsWire]] = []
    for at in range(GROUPS):
        group: list[StreamsWire] = []
        for number in range(MEMBERS_A_GROUP):
            made = StreamsWire(f"crowd-{at}", number)
            await loop.create_connection(lambda made=made: made, HOST, port)  # type: ignore[misc]
            group.append(made)
        groups.append(group)
    find = FindCoordinatorRequest(coordinator_keys=["any"])  # it makes the topic of groups
    await groups[0][0].ask(find, _FIND_VERSION, FindCoordinatorResponse)
    for group in groups:
        for each in group:
            await each.step()
        while not all([await each.step() for each in group]):
            pass
    members = [each for row in zip(*groups, strict=True) for each in row]
    for each in members:
        each.encode_beat()
    return members


def _measured(broker: BrokerProcess) -> Crowd:
    async def live(runtime: Runtime) -> Crowd:
        async with Admin(bootstrap_servers=f"{HOST}:{broker.port}", runtime=runtime) as admin:
            await admin.create_topic(NewTopic(TOPIC, MEMBERS_A_GROUP, 1))
        members = await _formed(broker.port)
        gc.collect()
        gc.freeze()  # or the collector holds up this side for a while, again and again
        steady = Steady(members, CONSUMER_HEARTBEAT_SECONDS)
        await steady.live(SETTLING_SECONDS, commits_too=False)
        for each in members:
            each.times_s.clear()
        await steady.live(STEADY_SECONDS, commits_too=False)
        memory = resident_bytes(broker.pid)
        steady.close()
        times = sorted(found for each in members for found in each.times_s)
        gc.unfreeze()
        return Crowd(times[len(times) * 99 // 100], memory / 1e6)

    return run(live)


@cache
def crowd(broker: str, number: int) -> Crowd:
    """Measure one round, on a broker of its own."""
    with STARTS[broker](PROPERTIES) as process:
        return _measured(process)
