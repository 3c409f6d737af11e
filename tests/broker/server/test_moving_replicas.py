"""A replica moves to another directory of a whole broker: clients go on, the cluster learns it, and
it is there after a restart."""

from __future__ import annotations

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
from moldau.runtime import Runtime
from tests.broker.server.houses import house
from tests.broker.server.wire import Wire
from tests.runtime.arena import REAL_ARENAS, play

PLACE = TopicPartition("orders", 0)


def lies_in(broker: Broker) -> str:
    found = broker.node.directories.directory_of(PLACE)
    assert found is not None
    return found.path


def told_of(broker: Broker) -> str:
    """Where the metadata say that it lies."""
    topic = broker.node.image.topics.by_name(PLACE.topic)
    assert topic is not None
    directory_id = topic.partitions[0].directory_of(broker.node.node_id)
    paths = {each.directory_id: each.path for each in broker.node.directories.directories}
    return paths.get(directory_id, "nowhere")


async def until_told(broker: Broker, wire: Wire) -> None:
    """The broker tells the controller by itself, between two requests."""
    clock = broker.node.runtime.clock
    deadline = clock.monotonic() + 20
    while clock.monotonic() < deadline:
        if told_of(broker) == lies_in(broker):
            return
        await wire.metadata()
    raise AssertionError(f"the metadata say {told_of(broker)}")


async def move(wire: Wire, path: str) -> None:
    topic = AlterReplicaLogDirTopic(name=PLACE.topic, partitions=[0])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
    answer = await wire.ask(request, AlterReplicaLogDirsResponse)
    assert answer.results[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("arena", [*REAL_ARENAS, "simulated"])
def test_it_moves_and_everybody_learns_it(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            paths = [f"{at.directory}/{name}" for name in ("a", "b")]
            given = {"log_dirs": ",".join(paths)}
            values = [b"value-%d" % number for number in range(40)]
            async with at.open(**given) as (broker, wire):
                await wire.create("orders")
                await wire.produce("orders", values)
                await until_told(broker, wire)
                other = next(each for each in paths if each != lies_in(broker))
                await move(wire, other)
                await broker.node.replicas.moves.idle()
                assert lies_in(broker) == other
                await until_told(broker, wire)
                assert await wire.fetch_all("orders") == values
                await wire.produce("orders", values)
            async with at.open(**given) as (broker, wire):
                assert lies_in(broker) == told_of(broker) == other
                assert await wire.fetch_all("orders") == values * 2
            assert not at.complaints()

    play(arena, scenario)
