"""Random faults stay within what was promised, and end when they must."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import FaultPlan, FaultScheduler, NodeState, Options, Simulation
from moldau.runtime.simulated.disk_faults import DiskFaults
from moldau.runtime.simulated.faults import BY_HAND_PER_MINUTE, RATES_PER_MINUTE
from moldau.runtime.simulated.node import Node
from tests.runtime.simulated.probe import Felt


async def idle(runtime: Runtime) -> None:
    await asyncio.Event().wait()


def test_drawn_plans_differ_in_kind() -> None:
    plans = [FaultPlan.draw(Random(seed)) for seed in range(50)]

    assert {kind for plan in plans for kind in plan.per_minute} == set(RATES_PER_MINUTE)
    assert len({frozenset(plan.per_minute) for plan in plans}) > 40
    assert FaultPlan.draw(Random(1)) == FaultPlan.draw(Random(1))


SYMPTOMS = {
    "crash": "found all",
    "power_loss": "lost what was not synced",
    "lose_disk": "empty disk",
    "pause": "gap",
    "isolate": "silence",
    "one_way": "silence",
    "clog": "silence",
    "reset": "ConnectionResetError",
    "sever": "silence",
    "half_open": "ConnectionResetError",
    "refuse": "slow connect",
    "resolver": "unknown name",
    "slow": "slow",
    "wall_jump": "wall jump",
    "drift": "drift",
    "slow_sync": "slow sync",
    "disk_error": "EIO",
    "no_space": "ENOSPC",
    "bit_rot": "wrong bytes",
    "misdirected_write": "wrong bytes",
}
"""By what a node notices that it was hit."""


def test_every_kind_of_fault_has_a_symptom_and_health_has_none() -> None:
    assert set(SYMPTOMS) == {*RATES_PER_MINUTE, *BY_HAND_PER_MINUTE}
    with Simulation(1) as world:
        felt = Felt(world)
        world.run_for(120)
        assert felt.symptoms == {}


@pytest.mark.parametrize("kind", SYMPTOMS)
def test_every_kind_of_fault_is_felt(kind: str) -> None:
    with Simulation(1) as world:
        felt = Felt(world)
        world.run_for(5)
        faults = FaultScheduler(world, FaultPlan({kind: 30.0}, seconds_mean=4))
        faults.start()
        world.run_for(60)
        assert faults.counts[kind] > 5
        assert felt.symptoms[SYMPTOMS[kind]] >= 2, felt.symptoms


def test_no_more_nodes_are_down_than_allowed() -> None:
    down_seen = set()
    with Simulation(2) as world:
        nodes = [world.add_node(f"n{number}", idle) for number in range(5)]
        kinds = ("crash", "power_loss", "pause", "isolate")
        faults = FaultScheduler(world, FaultPlan(dict.fromkeys(kinds, 60.0)), down_max=2)

        def count_down() -> None:
            down = sum(node.state is not NodeState.RUNNING for node in nodes)
            down_seen.add(down)
            assert down <= 2

        world.add_invariant(count_down)
        faults.start()
        world.run_for(300)

    assert down_seen == {0, 1, 2}


@pytest.mark.parametrize("seed", range(3))
def test_after_healing_nothing_is_felt_any_more(seed: int) -> None:
    kinds = [*RATES_PER_MINUTE, *BY_HAND_PER_MINUTE]
    with Simulation(seed) as world:
        felt = Felt(world)
        plan = FaultPlan(dict.fromkeys(kinds, 6.0), seconds_mean=15)
        faults = FaultScheduler(world, plan, down_max=2)
        faults.start()
        world.run_for(90)
        assert len(felt.symptoms) >= 10
        nodes = list(world.nodes.values())
        running = NodeState.RUNNING
        world.run_until(lambda: any(node.state is not running for node in nodes), within=60)
        faults.heal()
        counts = dict(faults.counts)
        world.run_for(30)  # the last of it: connections that nobody ended, files that had rotted
        felt.symptoms.clear()
        starts = [node.starts for node in nodes]
        times = [node.clock.local_ns() for node in nodes]
        world.run_for(120)
        assert felt.symptoms == {}
        for node, before in zip(nodes, times, strict=True):
            assert node.state is NodeState.RUNNING
            assert node.disk.faults == DiskFaults()
            assert node.clock.local_ns() - before == 120 * 10**9
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


@pytest.mark.parametrize("kind", ["isolate", "one_way", "clog"])
def test_faults_that_overlap_undo_only_themselves(kind: str) -> None:
    def stopped() -> set[tuple[str, str]]:
        names = list(world.nodes)
        return {(a, b) for a in names for b in names if world.network.link(a, b).stopped}

    for seed in range(8):
        with Simulation(seed) as world:
            for number in range(2 if kind == "clog" else 3):
                world.add_node(f"n{number}", idle)
            faults = FaultScheduler(world, FaultPlan(), down_max=3)
            did: list[set[tuple[str, str]]] = []
            undos = []
            for _ in range(3):
                before = dict(world.network._blocks), dict(world.network._clogs)
                undos.append(faults._faults[kind]())
                after = world.network._blocks, world.network._clogs
                did.append(
                    {
                        way
                        for old, new in zip(before, after, strict=True)
                        for way in new
                        if new[way] > old.get(way, 0)
                    }
                )
            while undos:
                assert stopped() == set().union(*did)
                undo = undos.pop(0)
                assert undo is not None
                undo()
                did.pop(0)
            assert stopped() == set()


def test_a_block_lasts_until_each_is_taken_back() -> None:
    with Simulation(8) as world:
        world.add_node("a", idle)
        world.add_node("b", idle)
        network = world.network
        network.block("a", "b")
        network.clog("a", "b")
        network.block("a", "b")
        network.unblock("a", "b")
        network.unclog("a", "b")
        assert network.link("a", "b").blocked
        assert not network.link("a", "b").clogged
        network.heal()
        network.unblock("a", "b")
        network.block("a", "b")
        network.unblock("a", "b")
        assert not network.link("a", "b").stopped


async def careful(runtime: Runtime) -> None:
    """Writes, and ends by the first failure of its disk."""
    files, number = runtime.files, 0
    while True:
        await runtime.run_blocking(files.write_text_atomic, "/number", "x" * 100 * number)
        number += 1
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", ["disk_error", "no_space"])
def test_nodes_that_end_by_their_disk_count_as_down_and_come_back(kind: str) -> None:
    down_seen = set()
    with Simulation(9) as world:
        nodes = [world.add_node(f"n{number}", careful) for number in range(3)]
        for node in nodes:
            node.fails_run = False
        faults = FaultScheduler(world, FaultPlan({kind: 60.0}, seconds_mean=5))

        def count_down() -> None:
            down_seen.add(sum(node.state is not NodeState.RUNNING for node in nodes))

        world.add_invariant(count_down)
        faults.start()
        world.run_for(200)
        faults.heal()
        assert down_seen == {0, 1}
        assert not any(node.disk.is_read_only or node.disk.needs_remount for node in nodes)
        assert all(node.disk.faults == DiskFaults() for node in nodes)
        assert sum(node.starts for node in nodes) > 6
        world.run_for(1)
        assert all(node.state is NodeState.RUNNING for node in nodes)


def test_a_read_only_disk_is_mounted_anew_when_all_is_healed() -> None:
    async def stubborn(runtime: Runtime) -> None:
        while True:
            with suppress(OSError):
                runtime.files.write_text_atomic("/number", "1")
            await asyncio.sleep(0.1)

    with Simulation(10) as world:
        node = world.add_node("node", stubborn)
        faults = FaultScheduler(world, FaultPlan())
        faults.start()
        world.run_for(1)
        node.disk.faults.sync_error = 1.0
        world.run_for(1)
        node.disk.is_read_only = True
        node.disk.faults.sync_error = 0.0
        faults.heal()
        assert not node.disk.is_read_only
        world.run_for(1)
        assert node.disk.contents("/number") == b"1"


def test_who_failed_by_itself_takes_the_place_of_a_fault() -> None:
    async def fail(runtime: Runtime) -> None:
        raise LookupError("a bug")

    async def finish(runtime: Runtime) -> None:
        """Done."""

    for main, strikes in ((fail, False), (finish, True)):
        with Simulation(11) as world:
            early = world.add_node("early", main)
            early.fails_run = False
            world.add_node("other", idle)
            faults = FaultScheduler(world, FaultPlan({"crash": 60.0}))
            faults.start()
            world.run_for(60)
            assert bool(faults.counts["crash"]) == strikes
            faults.heal()
            assert early.starts == (1 if strikes else 2)


def test_healing_ends_rare_paths_too() -> None:
    with Simulation(12, Options(buggify_share=1.0)) as world:
        node = world.add_node("node", idle)
        faults = FaultScheduler(world, FaultPlan())
        assert node.runtime is not None
        assert node.runtime.buggify("rare", 1.0)
        faults.heal()
        assert not node.runtime.buggify("rare", 1.0)


@pytest.mark.parametrize("kind", ["slow", "refuse", "resolver", "drift", "slow_sync"])
def test_what_happens_to_a_node_once_is_not_undone_by_another(kind: str) -> None:
    def trouble(node: Node) -> bool:
        assert node.incarnation is not None
        return {
            "slow": node.incarnation.gate is not None,
            "refuse": not node.host.accepts,
            "resolver": not node.host.resolver_works,
            "drift": node.clock.drifts,
            "slow_sync": node.disk.faults.slow_sync > 0,
        }[kind]

    with Simulation(13) as world:
        node = world.add_node("node", idle)
        faults = FaultScheduler(world, FaultPlan())
        world.run_for(1)
        undo = faults._faults[kind]()
        assert undo is not None
        assert trouble(node)
        assert faults._faults[kind]() is None
        if kind != "drift":  # what a clock has lost it does not get back
            undo()
            world.run_for(1)
            assert not trouble(node)


def test_a_slow_sync_and_a_drift_can_be_felt() -> None:
    with Simulation(14) as world:
        node = world.add_node("node", careful)
        faults = FaultScheduler(world, FaultPlan({"slow_sync": 30.0, "drift": 30.0}))
        faults.start()
        world.run_for(120)
        assert node.disk.fault_counts["slow_sync"] > 0
        assert node.clock.local_ns() != world.loop.now_ns


def test_rot_and_stray_writes_change_what_is_on_the_disk() -> None:
    kinds = {"bit_rot": 60.0, "misdirected_write": 60.0}
    with Simulation(15) as world:
        node = world.add_node("node", careful)
        with_log = node.disk
        with_log.put("/log", bytes(4096))
        faults = FaultScheduler(world, FaultPlan(kinds))
        faults.start()
        world.run_for(60)
        assert faults.counts.keys() == kinds.keys()
        assert with_log.contents("/log") != bytes(4096)
        assert node.disk.fault_counts["bit_rot"] > 5
