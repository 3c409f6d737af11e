"""Rare paths are taken in some runs, never in production, and counted."""

from __future__ import annotations

import asyncio

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.runtime.simulated import Options, Simulation
from moldau.runtime.simulated.buggify import Buggify, Coverage


def test_a_point_is_active_in_some_runs_and_fires_at_its_rate() -> None:
    fired = []
    for seed in range(200):
        buggify = Buggify(str(seed))
        fired.append(sum(buggify("small-batch", 0.1) for _ in range(100)))
        assert buggify.activations["small-batch"] == fired[-1]
        assert buggify.asked["small-batch"] == 100

    active = [count for count in fired if count]
    assert 25 < len(active) < 75
    assert 7 < sum(active) / len(active) < 13


def test_a_new_point_does_not_disturb_the_others() -> None:
    alone, together = Buggify("1", active_share=1.0), Buggify("1", active_share=1.0)

    first = [alone("a", 0.5) for _ in range(50)]
    second = []
    for _ in range(50):
        together("b", 0.5)
        second.append(together("a", 0.5))

    assert first == second


def test_points_can_be_switched_off_for_the_liveness_phase() -> None:
    buggify = Buggify("1", active_share=1.0)
    assert buggify("a", 1.0)
    buggify.enabled = False
    assert not buggify("a", 1.0)


def test_nodes_reach_their_points_and_the_world_counts_them() -> None:
    async def main(runtime: Runtime) -> None:
        for _ in range(10):
            assert runtime.buggify("always", 1.0)
            assert not runtime.buggify("never", 0.0)
            await asyncio.sleep(1)

    with Simulation(1, Options(buggify_share=1.0)) as world:
        world.add_node("node", main)
        world.run_for(20)
        assert world.buggify.activations == {"always": 10}
        assert "buggify always" in "\n".join(world.trace.lines("node"))


def test_production_takes_no_rare_path() -> None:
    async def main(runtime: Runtime) -> bool:
        return runtime.buggify("point", 1.0)

    assert not run(main)


def test_coverage_tells_what_was_never_seen() -> None:
    coverage = Coverage()
    for number in range(10):
        coverage.sometimes("big", number > 8)
        coverage.sometimes("negative", number < 0)

    assert coverage.seen["big"] == 1
    assert coverage.never() == ["negative"]
