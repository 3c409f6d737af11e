"""Clocks of nodes: one that goes forward, one that people set, both possibly wrong."""

from __future__ import annotations

import asyncio

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.clock import EPOCH_MS


async def tick(runtime: Runtime) -> None:
    for _ in range(100_000):
        await asyncio.sleep(1)


def test_all_clocks_agree_until_something_happens() -> None:
    seen: list[tuple[float, int, int]] = []

    async def main(runtime: Runtime) -> None:
        await asyncio.sleep(2.5)
        clock = runtime.clock
        seen.append((clock.monotonic(), clock.monotonic_ns(), clock.wall_ms()))
        assert asyncio.get_running_loop().time() == clock.monotonic()

    with Simulation(1) as world:
        world.add_node("a", main)
        world.add_node("b", main)
        world.run_for(5)

    assert seen == [(2.5, 2_500_000_000, EPOCH_MS + 2500)] * 2


@pytest.mark.parametrize(("ppm", "expected"), [(100_000, 1100), (-100_000, 900), (0, 1000)])
def test_timers_drift_with_their_clock(ppm: int, expected: int) -> None:
    ticks: list[float] = []

    async def main(runtime: Runtime) -> None:
        while True:
            before = runtime.clock.monotonic()
            await asyncio.sleep(1)
            assert runtime.clock.monotonic() - before == pytest.approx(1, abs=1e-6)
            ticks.append(world.now)

    with Simulation(1) as world:
        world.add_node("node", main).clock.drift(ppm)
        world.run_for(1000.5)

    assert len(ticks) == pytest.approx(expected, abs=1)


def test_monotonic_time_never_goes_back_whatever_the_rate_does() -> None:
    times: list[int] = []

    async def main(runtime: Runtime) -> None:
        while True:
            times.append(runtime.clock.monotonic_ns())
            await asyncio.sleep(0.1)

    with Simulation(1) as world:
        node = world.add_node("node", main)
        for ppm in (50_000, -90_000, 0, 100_000, -1):
            node.clock.drift(ppm)
            world.run_for(10)
        node.clock.set_right()
        assert node.clock.local_ns() >= times[-1]
        world.run_for(10)

    assert times == sorted(times)
    assert len(times) > 500


def test_the_wall_clock_jumps_and_timers_do_not_notice() -> None:
    walls: list[int] = []

    async def main(runtime: Runtime) -> None:
        for _ in range(3):
            walls.append(runtime.clock.wall_ms() - EPOCH_MS)
            await asyncio.sleep(1)

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(0.5)
        node.clock.jump_wall(-60_000)
        world.run_for(1)
        node.clock.jump_wall(3_600_000)
        world.run_for(1)
        node.clock.set_right()
        assert node.clock.wall_ms() == EPOCH_MS + 2500

    assert walls == [0, -59_000, 3_542_000]


def test_a_clock_that_was_set_right_is_right() -> None:
    with Simulation(1) as world:
        node = world.add_node("node", tick)
        node.clock.drift(77_777)
        node.clock.jump_wall(12_345)
        world.run_for(1000)
        assert abs(node.clock.wall_ms() - (EPOCH_MS + 1_000_000)) > 10_000
        node.clock.set_right()
        assert abs(node.clock.wall_ms() - (EPOCH_MS + 1_000_000)) <= 1
        world.run_for(1000)
        assert abs(node.clock.wall_ms() - (EPOCH_MS + 2_000_000)) <= 1


def test_the_loop_of_a_drifting_node_and_its_deadlines_agree() -> None:
    rounds = [0]

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        for number in range(200):
            deadline = loop.time() + 0.001 * number + 1e-9
            while loop.time() < deadline:
                rounds[0] += 1
                await asyncio.sleep(deadline - loop.time())

    with Simulation(1) as world:
        world.add_node("node", main).clock.drift(33_333)
        world.run_for(100)

    assert rounds[0] <= 420


@pytest.mark.parametrize("ppm", [-100_000, 100_000])
def test_timers_that_are_pending_move_when_the_rate_changes(ppm: int) -> None:
    woken: list[tuple[float, float]] = []

    async def main(runtime: Runtime) -> None:
        deadline = runtime.clock.monotonic() + 10
        await asyncio.sleep(10)
        woken.append((runtime.clock.monotonic() - deadline, world.now))

    with Simulation(1) as world:
        world.add_node("other", tick)
        node = world.add_node("node", main)
        world.run_for(5)
        node.clock.drift(ppm)
        world.run_for(20)

    early, when = woken[0]
    assert 0 <= early < 1e-6
    assert when == pytest.approx(5 + 5 / (1 + ppm / 1e6), abs=1e-6)


def test_only_the_timers_of_the_clock_that_changes_move() -> None:
    woken: list[tuple[str, float]] = []

    async def main(runtime: Runtime) -> None:
        await asyncio.sleep(10)
        woken.append((runtime.node, world.now))

    with Simulation(1) as world:
        node = world.add_node("slow", main)
        world.add_node("right", main)
        world.after(10, lambda: woken.append(("world", world.now)))
        world.run_for(5)
        node.clock.drift(-500_000)
        world.run_for(4)
        node.clock.drift(0)
        world.run_for(20)

    assert sorted(woken) == [("right", 10), ("slow", 12), ("world", 10)]
