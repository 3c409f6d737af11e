"""Log directories that are cordoned off take no new replicas (KIP-1066)."""

from __future__ import annotations

from typing import Final

import pytest

from moldau.broker.log.names import TopicPartition
from moldau.broker.server import Broker
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from moldau.runtime import Runtime
from tests.broker.server.dynamic_change import alter
from tests.broker.server.houses import house
from tests.broker.server.wire import Wire
from tests.runtime.arena import REAL_ARENAS, play

NAME: Final = "cordoned.log.dirs"
ARENAS: Final = [*REAL_ARENAS, "simulated"]


async def cordoned(wire: Wire) -> list[bool]:
    """Of the directories in their order, as clients are told."""
    answer = await wire.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    return [each.is_cordoned for each in answer.results]


async def until_cordoned(broker: Broker, wire: Wire, wanted: list[bool]) -> None:
    """The broker tells the controller by itself, between two requests."""
    clock = broker.node.runtime.clock
    deadline = clock.monotonic() + 20
    while await cordoned(wire) != wanted:
        assert clock.monotonic() < deadline


def homes(broker: Broker, topic: str, partitions: int) -> set[str]:
    directories = broker.node.directories
    found = (directories.directory_of(TopicPartition(topic, each)) for each in range(partitions))
    return {each.path for each in found if each is not None}


async def move(wire: Wire, topic: str, path: str) -> ErrorCode:
    moved = AlterReplicaLogDirTopic(name=topic, partitions=[0])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[moved])])
    answer = await wire.ask(request, AlterReplicaLogDirsResponse)
    return ErrorCode(answer.results[0].partitions[0].error_code)


async def why_not(wire: Wire) -> str:
    """What a client is told that wants a topic."""
    topic = CreatableTopic(
        name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=True)
    answer = await wire.ask(request, CreateTopicsResponse)
    return answer.topics[0].error_message or ""


@pytest.mark.parametrize("arena", ARENAS)
def test_new_replicas_go_elsewhere_until_nothing_is_cordoned_off(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            one, two = (f"{at.directory}/{name}" for name in ("a", "b"))
            given = {"log_dirs": f"{one},{two}", "cordoned_log_dirs": two}
            async with at.open(**given) as (broker, wire):
                assert await cordoned(wire) == [False, True], "from the start on"
                assert await wire.create("orders", 4) == ErrorCode.NONE
                assert homes(broker, "orders", 4) == {one}
                assert await move(wire, "orders", two) == ErrorCode.INVALID_REPLICA_ASSIGNMENT

                assert await alter(wire, NAME, one) == ErrorCode.NONE
                await until_cordoned(broker, wire, [True, False])
                assert await wire.create("users", 4) == ErrorCode.NONE
                assert homes(broker, "users", 4) == {two}

                assert await alter(wire, NAME, "") == ErrorCode.NONE
                await until_cordoned(broker, wire, [False, False])
                assert await wire.create("bills", 4) == ErrorCode.NONE
                assert homes(broker, "bills", 4) == {one, two}
                assert await move(wire, "orders", two) == ErrorCode.NONE

    play(arena, scenario)


@pytest.mark.parametrize("everything", ["*", "{0}/a,{0}/b"])
def test_a_broker_all_of_whose_directories_are_cordoned_off_gets_no_partitions(
    everything: str,
) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            given = {
                "log_dirs": f"{at.directory}/a,{at.directory}/b",
                "broker_heartbeat_interval_ms": "60000",  # the controller is told at once
                "broker_session_timeout_ms": "180000",
            }
            async with at.open(**given) as (broker, wire):
                assert await alter(wire, NAME, everything.format(at.directory)) == ErrorCode.NONE
                await until_cordoned(broker, wire, [True, True])
                assert await wire.create("orders") == ErrorCode.INVALID_REPLICATION_FACTOR
                assert "cordoned off" in await why_not(wire)
            async with at.open(**given) as (broker, wire):
                assert await cordoned(wire) == [True, True]
                assert await alter(wire, NAME, f"{at.directory}/a") == ErrorCode.NONE
                await until_cordoned(broker, wire, [True, False])
                assert await wire.create("orders") == ErrorCode.NONE
                assert await alter(wire, NAME, None) == ErrorCode.NONE
                await until_cordoned(broker, wire, [False, False])

    play("simulated", scenario)
