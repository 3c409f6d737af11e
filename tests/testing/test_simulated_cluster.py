"""Whole clusters in virtual time, as users have them in their tests."""

from __future__ import annotations

import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.report import SimulationFailed
from moldau.testing import SimulatedCluster, seeds

PLACE = TopicPartition("orders", 0)


@seeds(range(2))
def test_a_killed_leader_loses_nothing(world: Simulation) -> None:
    cluster = SimulatedCluster(world, brokers=3)

    async def create(runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic("orders", 1, 3)])

    async def order(runtime: Runtime) -> int:
        async with Producer(runtime=runtime, bootstrap_servers=cluster.bootstrap_servers) as out:
            for number in range(100):
                await out.send_and_wait("orders", b"%d" % number)
        return 100

    async def read(runtime: Runtime) -> list[int]:
        async with Consumer(
            runtime=runtime,
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([PLACE])
            return [int((await consumer.getone()).value or b"") for _ in range(100)]

    cluster.await_up()
    cluster.run(create)
    ordering = cluster.start_program(order)
    world.run_for(0.05)
    assert not ordering.is_done, "or the test shows nothing"
    victim = cluster.leader_of("orders")
    cluster.kill(victim)
    world.run_until(lambda: ordering.is_done, within=60)
    assert cluster.leader_of("orders") not in (victim, -1)
    assert cluster.run(read) == [*range(100)]
    cluster.start(victim)
    cluster.await_in_sync("orders", {1, 2, 3})
    assert cluster.controller() in cluster.controller_ids


@seeds([7])
def test_nodes_stop_pause_and_lose_each_other(world: Simulation) -> None:
    cluster = SimulatedCluster(world, brokers=2, controllers=1, settings={"broker.rack": "r"})
    cluster.await_up()
    assert cluster.node_ids == (1, 2, 101)
    assert cluster.controller() == 101
    cluster.stop(1)
    assert not cluster.is_alive(1)
    assert any("broker is closed" in line for line in cluster.lines[1])
    cluster.pause(2)
    cluster.isolate(101)
    world.run_for(1)
    cluster.heal()
    cluster.await_up()
    cluster.power_loss(2)
    assert 2 not in cluster.up
    cluster.start(2)
    cluster.await_up(2)


def test_a_failure_names_its_seed() -> None:
    worlds: list[int] = []

    @seeds((3, 4))
    def fails(world: Simulation) -> None:
        worlds.append(world.seed)
        world.run_until(lambda: world.seed == 3, within=1)

    with pytest.raises(SimulationFailed, match="seed 4"):
        fails()
    assert worlds == [3, 4]
    assert fails.__name__ == "fails"
