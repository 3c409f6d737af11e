"""Groups in a whole broker: offsets that survive restarts and crashes, topics that go, disks that
fail, and members that wait while the broker stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.broker.server import Broker
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupResponse
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchResponse
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.server.broken_disk import BrokenFiles
from tests.broker.server.houses import House, house
from tests.broker.server.loaded_groups import coordinated, listed
from tests.broker.server.wire import Wire
from tests.differential.group_requests import commit, fetch_offsets
from tests.differential.scenarios.group_members import join
from tests.runtime.arena import REAL_ARENAS, play

arenas = pytest.mark.parametrize("arena", [*REAL_ARENAS, "simulated"])
OFFSETS = "__consumer_offsets"
FEW: dict[str, Any] = {"offsets_topic_num_partitions": "2"}


async def committed(wire: Wire, group: str, topic: str, offset: int) -> ErrorCode:
    answer = await wire.ask(commit(group, {topic: {0: offset}}, {})(9), OffsetCommitResponse, 9)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def offsets_of(wire: Wire, group: str) -> dict[str, int]:
    answer = await wire.ask(fetch_offsets({group: None}, {})(9), OffsetFetchResponse, 9)
    return {each.name: each.partitions[0].committed_offset for each in answer.groups[0].topics}


@arenas
def test_offsets_survive_a_restart(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            async with at.open(**FEW) as (_, wire):
                await wire.create("orders")
                await coordinated(wire)
                for number in range(20):
                    code = await committed(wire, f"group {number}", "orders", number)
                    assert code == ErrorCode.NONE
            async with at.open(**FEW) as (_, wire):
                await coordinated(wire)
                for number in range(20):
                    assert await offsets_of(wire, f"group {number}") == {"orders": number}
                names = await listed(wire)
                assert names is not None
                assert sorted(names) == sorted(f"group {number}" for number in range(20))

    play(arena, scenario)


@arenas
def test_offsets_of_a_deleted_topic_go_with_it(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open(**FEW) as (_, wire):
            await wire.create("orders")
            await wire.create("others")
            await coordinated(wire)
            await committed(wire, "g", "orders", 3)
            await committed(wire, "g", "others", 4)
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)], timeout_ms=30_000
            )
            await wire.ask(request, DeleteTopicsResponse)
            assert await offsets_of(wire, "g") == {"others": 4}

    play(arena, scenario)


@arenas
def test_there_are_no_groups_without_their_topic(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open(**FEW) as (_, wire):
            await wire.create("orders")
            assert await committed(wire, "g", "orders", 3) == ErrorCode.NOT_COORDINATOR
            assert await listed(wire) == []
            await coordinated(wire)
            await committed(wire, "g", "orders", 3)
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=OFFSETS, topic_id=ZERO_UUID)], timeout_ms=30_000
            )
            await wire.ask(request, DeleteTopicsResponse)
            assert await committed(wire, "g", "orders", 3) == ErrorCode.NOT_COORDINATOR
            assert await listed(wire) == []
            await coordinated(wire)
            assert await offsets_of(wire, "g") == {}

    play(arena, scenario)


@arenas
def test_who_waits_in_a_join_is_answered_when_the_broker_stops(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            broker = await at.start(**FEW, group_initial_rebalance_delay_ms="60000")
            async with at.wire_of(broker) as wire, at.wire_of(broker) as beside:
                await coordinated(wire)
                asked = asyncio.ensure_future(wire.ask(join("g")(3), JoinGroupResponse, 3))
                while await listed(beside) == []:
                    pass
                await broker.aclose()
                answer = await asked
            assert answer.error_code == ErrorCode.NOT_COORDINATOR

    play(arena, scenario)


@arenas
def test_a_failed_disk_takes_its_groups_along(arena: str) -> None:
    """And those of the other disk stay."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            directories = f"{at.directory}/good,{at.directory}/bad"
            files = BrokenFiles(runtime.files)
            runtime.files = files.as_files()
            async with at.open(log_dirs=directories, **FEW) as (broker, wire):
                await wire.create("orders", 4)
                await coordinated(wire)
                groups = [f"g{number}" for number in range(8)]
                for group in groups:
                    assert await committed(wire, group, "orders", 1) == ErrorCode.NONE
                bad = led_in(broker, "/bad")
                files.broken.add("/bad/")
                for _ in range(2):
                    codes = {each: await committed(wire, each, "orders", 2) for each in groups}
                for group, code in codes.items():
                    index = broker.node.groups.partition_of(group)
                    assert code == (ErrorCode.NOT_COORDINATOR if index in bad else ErrorCode.NONE)
                assert 0 < len(bad) < 2

    play(arena, scenario)


def led_in(broker: Broker, directory: str) -> set[int]:
    """Which partitions of the offsets' topic lie there."""
    return {
        index
        for index in range(2)
        for found in [broker.node.directories.directories]
        for each in found
        if each.path.endswith(directory)
        and any((place.topic, place.partition) == (OFFSETS, index) for place in each.logs)
    }


def test_what_was_answered_is_there_after_the_process_died() -> None:
    """The process dies at any moment; what its page cache had survives, as a kill -9 leaves it."""
    seen: dict[str, int] = {}
    found: list[dict[str, int]] = []

    async def first(runtime: Runtime) -> None:
        async with house_at(runtime) as wire:
            await wire.create("orders")
            await coordinated(wire)
            for number in range(10_000):
                assert await committed(wire, "g", "orders", number) == ErrorCode.NONE
                seen["orders"] = number

    async def second(runtime: Runtime) -> None:
        async with house_at(runtime) as wire:
            await coordinated(wire)
            found.append(await offsets_of(wire, "g"))

    with Simulation(seed=3) as world:
        node = world.add_node("a", first)
        world.run_until(lambda: seen.get("orders", 0) >= 100, within=600)
        node.crash()
        node.start(second)
        world.run_until(lambda: found, within=600)

    assert seen["orders"] <= found[0]["orders"] <= seen["orders"] + 1


@asynccontextmanager
async def house_at(runtime: Runtime) -> AsyncIterator[Wire]:
    """A broker in a directory that stays, and a client of it."""
    runtime.files.make_dirs("/house")
    async with House(runtime, "/house").open(**FEW) as (_, wire):
        yield wire


@arenas
def test_a_heartbeat_is_answered_blindly_while_groups_are_loaded(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open(**FEW) as (broker, wire):
            await coordinated(wire)
            for index in range(2):
                broker.node.groups.resign(index)
                broker.node.groups.elect(index)
            request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            assert (await wire.ask(request, HeartbeatResponse)).error_code in (
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_MEMBER_ID,
            )

    play(arena, scenario)
