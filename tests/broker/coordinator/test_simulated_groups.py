"""Members of all protocols and a broker that dies again and again, from many seeds.

Invariants (reliability.md 12 and 13), looked at all the time:
* In one generation of a classic group a partition has one owner at most; so it has in a consumer
  group, as members believe it themselves while their session lasts.
* A task of a streams group is active at one member, and in one role in a process: a member has what
  it was given until it reports that it has given it up, or joins anew.
* A commit that was acknowledged is there after every death of the broker, or a later one is:
  members only commit what is higher.
* What a shard has in memory is what its log says.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Final

import pytest

from moldau.broker.coordinator.batches import StoredRecord, decode_piece
from moldau.broker.coordinator.group.coordinator import OFFSETS_TOPIC
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.streams.group import StreamsGroup
from moldau.broker.server import Broker
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupResponse
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchResponse
from moldau.protocol.messages.streams_group_describe import DescribedGroup
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from moldau.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.coordinator.streams.topologies import subtopology, topology
from tests.broker.network.virtual_pause import after
from tests.broker.server.houses import House
from tests.broker.server.wire import Wire, wired
from tests.differential.group_requests import commit, fetch_offsets
from tests.differential.scenarios.group_consumers import heartbeat
from tests.differential.scenarios.group_members import beat, join

pytestmark = pytest.mark.usefixtures("no_world_is_left")

PORT: Final = 9092
PARTITIONS: Final = 4
LIVES: Final = 4
SEEDS: Final = range(5)
SETTINGS: Final = {
    "offsets_topic_num_partitions": "2",
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "100",
    "group_consumer_assignment_interval_ms": "0",
    "group_consumer_regex_refresh_interval_ms": "10000",
    "group_streams_initial_rebalance_delay_ms": "0",
    "group_streams_assignment_interval_ms": "0",
    "group_streams_num_standby_replicas": "1",
}
APPLICATION: Final = topology(subtopology("0", "t", changelogs=["app-log"]))
ROLES: Final = ("active", "standby", "warmup")
Tasks = dict[str, list[int]]
"""The tasks of a member by role."""
_LOST: Final = (OSError, EOFError, TimeoutError)


class Story:
    """One world, and what was promised in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = Simulation(seed)
        self.broker: Broker | None = None
        self.owners: dict[tuple[str, int, int], str] = {}
        """Of classic partitions: by group, generation and partition."""
        self.promised: dict[tuple[str, int], int] = {}
        self.tried: dict[tuple[str, int], int] = {}
        self.commits = 0
        self.compared = 0
        self.moves = 0
        self.running: dict[tuple[str, int], str] = {}
        """Of tasks: the member that runs a task, or the process that has it, by kind and number."""

    async def serve(self, runtime: Runtime) -> None:
        house = House(runtime, "/data", host="")
        house.port = PORT
        self.broker = None
        self.broker = await house.start(**SETTINGS)
        await self.broker.wait()

    # Members.

    async def classic(self, runtime: Runtime, group: str) -> None:
        """Joins with the others of its group, commits, and begins anew whatever happens."""
        member = ""
        while True:
            try:
                async with asyncio.timeout(5), wired(runtime, "broker", PORT) as wire:
                    await self.found(wire)
                    member = await self.in_generation(wire, group, member)
            except _LOST:
                await after(0.02)

    async def in_generation(self, wire: Wire, group: str, member: str) -> str:
        joined = await wire.ask(join(group, member, session_ms=2_000)(9), JoinGroupResponse, 9)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return joined.member_id
        if joined.error_code:
            await after(0.01)
            return ""
        member, generation = joined.member_id, joined.generation_id
        members = sorted(each.member_id for each in joined.members)
        shares = [
            SyncGroupRequestAssignment(
                member_id=each, assignment=bytes(range(at, PARTITIONS, len(members)))
            )
            for at, each in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            protocol_type="consumer",
            protocol_name="range",
            assignments=shares,
        )
        synced = await wire.ask(request, SyncGroupResponse)
        if synced.error_code:
            return member if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS else ""
        owned = list(synced.assignment)
        for partition in owned:
            known = self.owners.setdefault((group, generation, partition), member)
            assert known == member, f"{partition} of {group} has two owners in {generation}"
        while True:
            await after(self.random.random() / 20)
            for partition in owned:
                await self.commit(wire, group, partition, member, generation)
            heard = await wire.ask(beat(group, member, generation), HeartbeatResponse)
            if heard.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return member
            if heard.error_code:
                return ""

    async def consumer(self, runtime: Runtime, group: str, name: str) -> None:
        """The same over KIP-848."""
        epoch, owned = 0, list[int]()
        while True:
            try:
                async with asyncio.timeout(5), wired(runtime, "broker", PORT) as wire:
                    await self.found(wire)
                    while True:
                        request = heartbeat(group, name, epoch)
                        heard = await wire.ask(request, ConsumerGroupHeartbeatResponse)
                        if heard.error_code:
                            epoch, owned = 0, []
                            break
                        epoch = heard.member_epoch
                        if heard.assignment is not None:
                            parts = heard.assignment.topic_partitions
                            owned = [index for each in parts for index in each.partitions]
                        for partition in owned:
                            await self.commit(wire, group, partition, name, epoch)
                        await after(self.random.random() / 20)
            except _LOST:
                epoch = 0
                await after(0.02)

    async def streams(self, runtime: Runtime, name: str, process: str) -> None:
        """The same over KIP-1071: all members run one application. What it loses it gives up, and
        reports that with its next heartbeat."""
        while True:
            had: Tasks = {}
            try:
                async with asyncio.timeout(5), wired(runtime, "broker", PORT) as wire:
                    await self.found(wire)
                    epoch = 0
                    while True:
                        request = streams_heartbeat(name, process, epoch, had)
                        heard = await wire.ask(request, StreamsGroupHeartbeatResponse)
                        if heard.error_code:
                            break
                        epoch = heard.member_epoch
                        had = self.turned(name, process, had, heard)
                        for number in had.get("active", ()):
                            await self.commit(wire, "app", number, name, epoch)
                        await after(self.random.random() / 20)
            except _LOST:
                await after(0.02)
            finally:
                self.stopped(name, process, had)

    def turned(
        self, name: str, process: str, had: Tasks, heard: StreamsGroupHeartbeatResponse
    ) -> Tasks:
        """The member takes what the answer gives it, and gives up the rest."""
        if heard.active_tasks is None:
            return had
        self.stopped(name, process, had)
        now = {
            role: [number for each in getattr(heard, f"{role}_tasks") for number in each.partitions]
            for role in ROLES
        }
        for role, numbers in now.items():
            for number in numbers:
                known = self.running.setdefault((process, number), name)
                assert known == name, f"{process} has task {number} at {known} and {name}"
                if role == "active":
                    known = self.running.setdefault(("active", number), name)
                    assert known == name, f"task {number} is active at {known} and {name}"
                    self.moves += 1
        return now

    def stopped(self, name: str, process: str, had: Tasks) -> None:
        for number in {number for numbers in had.values() for number in numbers}:
            for place in ((process, number), ("active", number)):
                if self.running.get(place) == name:
                    del self.running[place]

    async def found(self, wire: Wire) -> None:
        """The topics are there, and the coordinator."""
        await wire.create("t", PARTITIONS)
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        while (await wire.ask(request, FindCoordinatorResponse)).coordinators[0].error_code:
            await after(0.01)

    async def commit(self, wire: Wire, group: str, partition: int, member: str, epoch: int) -> None:
        """What nobody has committed yet."""
        place = group, partition
        offset = self.tried[place] = self.tried.get(place, 0) + 1
        request = commit(group, {"t": {partition: offset}}, {}, member=member, epoch=epoch)
        answer = await wire.ask(request(9), OffsetCommitResponse, 9)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.promised[place] = max(self.promised.get(place, 0), offset)
            self.commits += 1

    # What is looked at.

    async def audit(self, runtime: Runtime) -> None:
        """Reads and compares, again and again."""
        while True:
            try:
                async with asyncio.timeout(5), wired(runtime, "broker", PORT) as wire:
                    await self.found(wire)
                    for group in ("old", "new", "app"):
                        await self.look(wire, group)
            except _LOST:
                pass
            await after(0.05)

    async def look(self, wire: Wire, group: str) -> None:
        before = dict(self.promised)
        answer = await wire.ask(fetch_offsets({group: None}, {})(9), OffsetFetchResponse, 9)
        (found,) = answer.groups
        if found.error_code:
            return
        offsets = {
            each.partition_index: each.committed_offset
            for topic in found.topics
            for each in topic.partitions
        }
        for (name, partition), promised in before.items():
            if name == group:
                now = offsets.get(partition, -1)
                assert now >= promised, f"{group}-{partition} went back from {promised} to {now}"

    def compare(self) -> None:
        """Memory and log, of each shard that is loaded."""
        broker = self.broker
        if broker is None:
            return
        for index, live in broker.node.groups.loaded():
            log = broker.node.replicas.partition(OFFSETS_TOPIC, index).log
            told = broker.node.groups.kind.make()
            data = log.read(log.log_start_offset, 1 << 30).read()
            for entry in decode_piece(GROUP_LOG, data, log.log_start_offset).entries:
                assert isinstance(entry, StoredRecord)
                told.replay(entry.offset, entry.producer_id, entry.key, entry.value, 0)
            assert kinds(live) == kinds(told)
            assert described(live) == described(told)
            for group_id in kinds(live):
                assert live.offsets.of_group(group_id) == told.offsets.of_group(group_id)
            self.compared += 1

    def run(self) -> None:
        with self.world as world:
            broker = world.add_node("broker", self.serve)
            for at in range(3):
                world.add_node(f"old {at}", lambda runtime: self.classic(runtime, "old"))
                world.add_node(f"new {at}", partial(self.consumer, group="new", name=f"m{at}"))
                app = partial(self.streams, name=f"s{at}", process=f"p{at // 2}")
                world.add_node(f"app {at}", app)
            auditor = world.add_node("auditor", self.audit)
            for _ in range(LIVES):
                before = self.commits
                world.run_until(lambda: self.commits >= before + 20, within=120)  # noqa: B023
                world.run_for(self.random.random() / 5)
                self.compare()
                self.broker = None
                broker.crash()
                world.run_for(self.random.random() / 10)
                broker.start()
            world.run_for(1.0)
            self.compare()
            assert auditor.is_alive
            assert not auditor.has_failed


def streams_heartbeat(
    name: str, process: str, epoch: int, had: Tasks
) -> StreamsGroupHeartbeatRequest:
    """A heartbeat of a member, with all that it has."""
    tasks = {
        f"{role}_tasks": [TaskIds(subtopology_id="0", partitions=numbers)]
        if (numbers := had.get(role))
        else []
        for role in ROLES
    }
    request = StreamsGroupHeartbeatRequest(
        group_id="app", member_id=name, member_epoch=epoch, endpoint_information_epoch=0
    )
    for role, given in tasks.items():
        setattr(request, role, given)
    if epoch == 0:
        request.rebalance_timeout_ms = 60_000
        request.topology = APPLICATION
        request.process_id = process
        request.client_tags = []
    return request


def described(groups: Groups) -> list[DescribedGroup]:
    """Streams groups with their members and tasks."""
    return [each.describe() for each in groups if isinstance(each, StreamsGroup)]


def kinds(groups: Groups) -> dict[str, str]:
    return {each.group_id: each.kind.value for each in groups}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_committed_stays_and_partitions_have_one_owner(seed: int) -> None:
    story = Story(seed)
    story.run()

    assert {group for group, _ in story.promised} == {"old", "new", "app"}
    assert story.moves > LIVES
    assert story.commits > 100
    assert story.compared > 0
