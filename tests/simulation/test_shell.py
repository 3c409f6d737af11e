"""The shell of the replicated log: what it does when things end, and what an event costs."""

from __future__ import annotations

import asyncio

import pytest

from examples.replicated_log.client import ATTEMPT_S
from examples.replicated_log.cluster import Cluster
from examples.replicated_log.replica import Replica
from examples.replicated_log.server import Server
from moldau.runtime import Runtime
from moldau.runtime.simulated.report import SimulationFailed
from moldau.runtime.simulated.simulation import Simulation


class BrokenReplica(Replica):
    def on_produce(self, client: object, value: bytes, now_ms: int) -> None:
        raise KeyError("a bug")


class BrokenServer(Server):
    replica_class = BrokenReplica


async def keep_one(cluster: Cluster, runtime: Runtime) -> None:
    with cluster.client(runtime) as client:
        await client.produce(b"x")


def test_a_bug_in_the_core_ends_its_node() -> None:
    with Simulation(1) as world:
        cluster = Cluster(world, 1, BrokenServer)
        world.run_until(cluster.leader, within=30)
        world.add_node("client", lambda runtime: keep_one(cluster, runtime))
        with pytest.raises(SimulationFailed, match="main failed") as failed:
            world.run_for(10)
    assert isinstance(failed.value.__cause__, KeyError)


def test_a_client_notices_between_two_questions_that_its_server_is_gone() -> None:
    took: list[float] = []

    async def ask(runtime: Runtime) -> None:
        with cluster.client(runtime) as client:
            await client.produce(b"before")
            await asyncio.sleep(10)
            begun = runtime.clock.monotonic()
            await client.produce(b"after")
            took.append(runtime.clock.monotonic() - begun)

    with Simulation(1) as world:
        cluster = Cluster(world, 1)
        world.run_until(cluster.leader, within=30)
        world.add_node("client", ask)
        world.run_for(5)
        cluster.nodes[1].restart()
        world.run_until(lambda: took, within=60)
    assert took[0] < ATTEMPT_S / 2


def test_a_client_turns_away_from_a_server_that_is_silent() -> None:
    took: list[float] = []

    async def ask(runtime: Runtime) -> None:
        with cluster.client(runtime) as client:
            await client.produce(b"before")
            await asyncio.sleep(10)
            begun = runtime.clock.monotonic()
            await client.produce(b"after")
            took.append(runtime.clock.monotonic() - begun)

    with Simulation(1) as world:
        cluster = Cluster(world)
        world.run_until(cluster.leader, within=30)
        world.add_node("client", ask)
        world.run_for(5)
        number = cluster.leader()
        assert number is not None
        cluster.nodes[number].pause()
        world.run_until(lambda: took, within=60)
    assert ATTEMPT_S <= took[0] < 3 * ATTEMPT_S


def test_a_confirmed_record_costs_eighteen_events() -> None:
    """Six messages, three syncs of two events, three disk tasks woken, three for the client."""
    confirmed = 0

    async def write(runtime: Runtime) -> None:
        nonlocal confirmed
        with cluster.client(runtime) as client:
            while True:
                await client.produce(b"x")
                confirmed += 1
                await asyncio.sleep(0.01)

    with Simulation(1) as world:
        cluster = Cluster(world)
        world.run_until(cluster.leader, within=30)
        world.add_node("client", write)
        world.run_for(1)
        confirmed, events = 0, world.loop.events
        world.run_for(10)
    assert confirmed > 500
    assert (world.loop.events - events) / confirmed < 18.5
