"""Random faults stay within what was promised, and end when they must."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import FaultPlan, FaultScheduler, Simulation, State
from moldau.runtime.simulated.disk_faults import DiskFaults
from moldau.runtime.simulated.faults import RATES_PER_MINUTE
from tests.runtime.simulated.cluster import NODES, gossip


async def idle(runtime: Runtime) -> None:
    await asyncio.Event().wait()


def test_drawn_plans_differ_in_kind() -> None:
    plans = [FaultPlan.draw(Random(seed)) for seed in range(50)]

    assert {kind for plan in plans for kind in plan.per_minute} == set(RATES_PER_MINUTE)
    assert len({frozenset(plan.per_minute) for plan in plans}) > 40
    assert FaultPlan.draw(Random(1)) == FaultPlan.draw(Random(1))


def test_every_kind_of_fault_happens_and_can_be_survived() -> None:
    kinds = [*RATES_PER_MINUTE, "lose_disk"]
    with Simulation(1) as world:
        for name in NODES:
            world.add_node(name, gossip)
        plan = FaultPlan(dict.fromkeys(kinds, 10.0), seconds_mean=2)
        faults = FaultScheduler(world, plan, down_max=2)
        faults.start()
        world.run_for(600)
        assert set(faults.counts) == set(kinds)
        assert min(faults.counts.values()) > 5


def test_no_more_nodes_are_down_than_allowed() -> None:
    down_seen = set()
    with Simulation(2) as world:
        nodes = [world.add_node(f"n{number}", idle) for number in range(5)]
        kinds = ("crash", "power_loss", "pause", "isolate")
        faults = FaultScheduler(world, FaultPlan(dict.fromkeys(kinds, 60.0)), down_max=2)

        def count_down() -> None:
            down = sum(node.state is not State.RUNNING for node in nodes)
            down_seen.add(down)
            assert down <= 2

        world.add_invariant(count_down)
        faults.start()
        world.run_for(300)

    assert down_seen == {0, 1, 2}


def test_healing_ends_every_fault() -> None:
    with Simulation(3) as world:
        nodes = [world.add_node(f"n{number}", idle) for number in range(4)]
        plan = FaultPlan(dict.fromkeys([*RATES_PER_MINUTE, "disk_error"], 60.0), seconds_mean=50)
        faults = FaultScheduler(world, plan, down_max=3)
        faults.start()
        world.run_for(60)
        assert any(node.state is not State.RUNNING for node in nodes)
        faults.heal()
        world.run_for(1)
        counts = dict(faults.counts)
        for node in nodes:
            assert node.state is State.RUNNING
            assert node.host.accepts
            assert node.host.resolver_works
            assert node.disk.faults == DiskFaults()
            assert node.incarnation is not None
            assert node.incarnation.gate is None
        links = [world.network.link(a.name, b.name) for a in nodes for b in nodes]
        assert not any(link.stopped for link in links)
        starts = [node.starts for node in nodes]
        times = [node.clock.local_ns() for node in nodes]
        world.run_for(600)
        for node, before in zip(nodes, times, strict=True):
            assert node.clock.local_ns() - before == 600 * 10**9
        assert dict(faults.counts) == counts
        assert [node.starts for node in nodes] == starts


def test_only_the_chosen_nodes_suffer() -> None:
    with Simulation(4) as world:
        victim = world.add_node("victim", idle)
        other = world.add_node("other", idle)
        faults = FaultScheduler(world, FaultPlan({"crash": 60.0}, seconds_mean=0.5), ["victim"])
        faults.start()
        world.run_for(60)
        assert victim.starts > 10
        assert other.starts == 1


def test_a_test_can_bring_faults_of_its_own() -> None:
    log: list[str] = []

    def flood() -> Callable[[], None]:
        log.append("on")
        return lambda: log.append("off")

    with Simulation(5) as world:
        world.add_node("node", idle)
        plan = FaultPlan({"crash": 1.0, "flood": 30.0}, seconds_mean=1.0)
        faults = FaultScheduler(world, plan, own={"flood": flood})
        faults.start()
        world.run_for(60)
        faults.heal()

    assert log.count("on") == log.count("off") > 5


def test_a_fault_that_nobody_knows_is_refused() -> None:
    with Simulation(6) as world, pytest.raises(AssertionError, match="no such faults: meteor"):
        FaultScheduler(world, FaultPlan({"meteor": 1.0}))
