"""Whose code runs: the life that it belongs to goes with it, and after that life there is none.

Finalizers, new contexts and code that swallows its own death are ways out of a node, taken without
meaning to. None of them leads anywhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import (
    Incarnation,
    NodeKilled,
    RealWorldRefused,
    Simulation,
    SimulationFailed,
)
from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.loop import REFUSALS_MAX

FOREVER = 10**9


async def count_greetings(runtime: Runtime, greetings: list[bytes]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greetings.append(await reader.read())
        writer.close()

    await runtime.network.serve_streams(serve, "", 1)
    await asyncio.Event().wait()


async def greet() -> None:
    _, writer = await asyncio.open_connection("server", 1)
    writer.write(b"from the dead")
    writer.close()


async def busy(runtime: Runtime) -> None:
    """Lets events pass, so that the loop looks for garbage."""
    for _ in range(FOREVER):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("held_by", ["a cycle", "a timer"])
def test_what_a_dead_node_leaves_to_the_collector_has_no_effect(held_by: str) -> None:
    greetings: list[bytes] = []
    finalized: list[str] = []

    class Bomb:
        me: Bomb | None = None

        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            self.loop = loop

        def __del__(self) -> None:
            finalized.append("tried")
            greeting = greet()
            try:
                self.loop.create_task(greeting)
            finally:
                greeting.close()

    async def victim(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        bomb = Bomb(loop)
        if held_by == "a cycle":
            bomb.me = bomb
        else:
            loop.call_later(2, str, bomb)
        del bomb
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("server", lambda runtime: count_greetings(runtime, greetings))
        node = world.add_node("victim", victim)
        world.run_for(1)
        node.crash()
        world.add_node("busy", busy)
        world.run_for(400)

    assert finalized == ["tried"]
    assert greetings == []


def test_what_only_a_cancelled_main_refers_to_is_finalized_as_nobody() -> None:
    """Its traceback holds the frame. The loop is the last to let go of that, or from Python 3.13
    on its collector: the frame is part of a cycle there."""
    lives: list[object] = []

    class Bomb:
        def __del__(self) -> None:
            lives.append(CURRENT.get())

    async def main(runtime: Runtime) -> None:
        bomb = Bomb()
        await asyncio.Event().wait()
        del bomb

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.crash()
        world.add_node("busy", busy)
        world.run_for(400)

    (life,) = lives
    assert isinstance(life, Incarnation)
    assert not life.alive


def test_invariants_are_checked_as_the_world() -> None:
    lives: list[object] = []

    async def main(runtime: Runtime) -> None:
        await asyncio.sleep(1)

    with Simulation(1) as world:
        world.add_invariant(lambda: lives.append(CURRENT.get()))
        world.add_node("node", main)
        world.run_for(2)

    assert set(lives) == {None}


def test_a_new_context_does_not_lead_out_of_the_node() -> None:
    """Code that runs in `Context()` carries no name, and dies with its node all the same."""
    ran: list[str] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ran.append("task")

    def escape(loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(1.2, ran.append, "timer")
        loop.call_later(5, ran.append, "late timer")
        loop.call_soon(loop.call_later, 5, ran.append, "later still")
        keep.append(loop.create_task(tick()))
        loop.run_in_executor(None, ran.append, "thread")
        assert len(asyncio.all_tasks(loop)) == 2
        with pytest.raises(RealWorldRefused):
            time.time()

    keep: list[object] = []

    async def main(runtime: Runtime) -> None:
        Context().run(escape, asyncio.get_running_loop())
        await asyncio.Event().wait()

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1.5)
        assert sorted(ran) == ["task", "thread", "timer"]
        node.crash()
        world.run_for(10)

    assert len(ran) == 3


def test_a_context_of_ones_own_does_not_lead_out_of_the_node() -> None:
    greetings: list[bytes] = []
    ran: list[str] = []

    async def haunt() -> None:
        while True:
            await asyncio.sleep(1)
            await greet()

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(haunt(), context=Context())
        loop.call_later(2, ran.append, "later", context=Context())
        future = loop.create_future()
        future.add_done_callback(lambda _: loop.call_later(2, ran.append, "x"), context=Context())
        future.set_result(None)
        loop.call_soon(ran.append, "soon", context=Context())
        await task

    with Simulation(1) as world:
        world.add_node("server", lambda runtime: count_greetings(runtime, greetings))
        node = world.add_node("node", main)
        world.run_for(1.5)
        assert greetings == [b"from the dead"]
        node.crash()
        world.run_for(5)

    assert ran == ["soon"]
    assert len(greetings) == 1


@pytest.mark.parametrize("wait", ["sleep", "work", "executor", "connect"])
def test_code_that_swallows_its_own_death_is_named(wait: str) -> None:
    """It is told that it is dead, again and again; in the end it is left waiting, and found."""
    tries = 0

    async def once(runtime: Runtime) -> None:
        if wait == "sleep":
            await asyncio.sleep(1)
        elif wait == "work":
            await runtime.run_blocking(lambda: None)
        elif wait == "executor":
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        else:
            await runtime.network.connect(asyncio.Protocol, "nowhere", 1)

    async def stubborn(runtime: Runtime) -> None:
        nonlocal tries
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        for _ in range(2 * REFUSALS_MAX):  # it would end, if it were never left waiting
            try:
                await once(runtime)
            except NodeKilled:
                tries += 1
            except asyncio.CancelledError:
                pass

    kept: list[Coroutine[Any, Any, None]] = []

    async def main(runtime: Runtime) -> None:
        kept.append(stubborn(runtime))
        await runtime.spawn(kept[0], name="stubborn")

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.crash()
        with pytest.raises(SimulationFailed, match=r"outlive the crash(.|\n)*node/stubborn"):
            world.run_for(1)
    kept[0].close()
    assert tries == REFUSALS_MAX
