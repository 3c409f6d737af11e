"""One node of a simulated world, for tests that need nothing else."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from moldau.runtime import Runtime
from moldau.runtime.simulated import Node, Simulation

T = TypeVar("T")


def simulate(
    main: Callable[[Runtime], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    within: float = 3600,
    prepare: Callable[[Node], object] = lambda node: None,
) -> T:
    """Run `main` as the only node of a world until it returns."""
    results: list[T] = []

    async def body(runtime: Runtime) -> None:
        results.append(await main(runtime))

    with Simulation(seed) as world:
        node = world.add_node("node", body)
        prepare(node)
        world.run_until(lambda: results, within=within)
    return results[0]
