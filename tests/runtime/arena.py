"""The places where one suite runs: asyncio, uvloop, and the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from moldau.runtime import Runtime
from moldau.runtime.process import has_uvloop
from moldau.runtime.real import run
from moldau.runtime.simulated import LinkOptions, Options, Simulation

T = TypeVar("T")

HOST = "127.0.0.1"
UVLOOP = pytest.param(
    "uvloop", marks=pytest.mark.skipif(not has_uvloop(), reason="uvloop is not installed")
)
REAL_ARENAS = ("asyncio", UVLOOP)
ARENAS = (*REAL_ARENAS, "simulated", "simulated-torn")

Scenario = Callable[[Runtime], Coroutine[Any, Any, T]]


def play(arena: str, scenario: Scenario[T]) -> T:
    """Runs `scenario(runtime)` there and gives what it returns or raises."""
    if arena == "asyncio":
        return run(scenario, loop="asyncio")
    if arena == "uvloop":
        return run(scenario, loop="uvloop")
    return simulate(scenario, torn=arena.endswith("torn"))


def simulate(scenario: Scenario[T], *, torn: bool = False, seed: int = 1) -> T:
    """The same on a node of a small world; torn: everything arrives in pieces and out of step."""
    link = LinkOptions(split=1.0, piece_bytes_max=3, loss=0.1) if torn else LinkOptions()
    outcome: list[T] = []
    error: list[BaseException] = []

    async def main(runtime: Runtime) -> None:
        try:
            outcome.append(await scenario(runtime))
        except BaseException as failure:
            error.append(failure)

    with Simulation(seed, Options(link=link, shuffle=torn)) as world:
        if torn:
            # The node talks to itself; make that way as bad as any other.
            world.network.link("node", "node").options = link
        node = world.add_node("node", main)
        world.run_until(lambda: not node.is_alive, within=3600)
    if error:
        raise error[0]
    return outcome[0]


async def until(reached: Callable[[], bool]) -> None:
    """Wait until something is true that has no event."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        while not reached():
            turn = loop.create_future()
            loop.call_soon(turn.set_result, None)
            await turn
