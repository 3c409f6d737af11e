"""Blocking work is like a thread: a crash meets it anywhere, and nobody can stop or follow it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from functools import partial

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.incarnation import NodeKilled
from moldau.runtime.simulated.node import Node
from moldau.runtime.simulated.report import SimulationFailed

PLACE: ContextVar[str] = ContextVar("place", default="nowhere")


def seen_after(seed: int, ending: str, replace: str) -> tuple[str | None, bool]:
    """A node replaces a small file again and again until it dies: the text, and `.tmp`'s there."""

    async def main(runtime: Runtime) -> None:
        files, number = runtime.files, 0

        def write() -> None:
            if replace == "atomic":
                files.write_text_atomic("/text", f"{number:05}")
                return
            with files.open("/text", "write") as file:
                file.truncate(0)
                file.append(f"{number:05}".encode())
                file.sync()
            files.sync_dir("/")

        while True:
            number += 1
            await runtime.run_blocking(write)

    with Simulation(seed) as world:
        node = world.add_node("node", main)
        world.run_for(0.01 + world.random("death").random() * 0.01)
        getattr(node, ending)()
        paths = node.disk.paths()
        text = node.disk.contents("/text").decode() if "/text" in paths else None
        return text, "/text.tmp" in paths


@pytest.mark.parametrize("ending", ["crash", "power_loss"])
def test_a_death_in_the_middle_of_an_atomic_replacement_shows_only_whole_texts(ending: str) -> None:
    seen = [seen_after(seed, ending, "atomic") for seed in range(150)]

    assert all(text is not None and len(text) == 5 for text, _ in seen)
    assert {is_there for _, is_there in seen} == {False, True}


@pytest.mark.parametrize("ending", ["crash", "power_loss"])
def test_a_death_in_the_middle_of_a_replacement_in_place_tears_it(ending: str) -> None:
    seen = [seen_after(seed, ending, "in place") for seed in range(150)]

    assert any(text is None or len(text) != 5 for text, _ in seen)


def test_nothing_that_dying_work_cleans_up_reaches_the_disk() -> None:
    cleaned = 0

    async def main(runtime: Runtime) -> None:
        files = runtime.files

        def write() -> None:
            nonlocal cleaned
            try:
                files.write_text_atomic("/text", "x")
            finally:
                cleaned += 1
                with files.open("/clean", "write") as file:
                    file.append(b"clean")
                files.remove("/clean")

        while True:
            await runtime.run_blocking(write)

    died = 0
    for seed in range(100):
        with Simulation(seed) as world:
            node = world.add_node("node", main)
            world.run_for(0.01 + seed * 0.0001)
            before = cleaned
            node.crash()
            died += cleaned > before and "/text.tmp" in node.disk.paths()
            if "/text.tmp" in node.disk.paths():
                assert "/clean" not in node.disk.paths()
    assert died


def test_a_sync_that_power_loss_meets_may_have_written_a_part() -> None:
    lengths = set()

    async def main(runtime: Runtime) -> None:
        with runtime.files.open("/log", "create") as file:
            runtime.files.sync_dir("/")
            while True:
                file.append(bytes(4096))
                await runtime.run_blocking(file.sync)

    for seed in range(60):
        with Simulation(seed) as world:
            node = world.add_node("node", main)
            world.run_for(0.05 + seed * 0.0001)
            node.power_loss()
            lengths.add(len(node.disk.contents("/log")) % 4096)
    assert len(lengths) > 1


def test_a_slow_sync_is_not_over_before_its_time() -> None:
    kept = set()

    async def main(runtime: Runtime) -> None:
        with runtime.files.open("/log", "create") as file:
            runtime.files.sync_dir("/")
            await runtime.run_blocking(file.sync)
            file.append(b"x")
            node.disk.faults.slow_sync = 1.0
            await runtime.run_blocking(file.sync)
            raise AssertionError("the sync takes ten seconds")

    for seed in range(30):
        with Simulation(seed) as world:
            node = world.add_node("node", main)
            world.run_for(5)
            assert node.is_alive
            node.power_loss()
            kept.add(node.disk.contents("/log") if "/log" in node.disk.paths() else b"")
    assert kept >= {b"", b"x"}


def test_a_process_that_ends_lets_its_threads_end() -> None:
    outcomes = set()

    async def main(runtime: Runtime) -> None:
        files = runtime.files
        await runtime.run_blocking(files.write_text_atomic, "/text", "first")
        runtime.run_blocking(files.write_text_atomic, "/text", "last")
        await asyncio.sleep(0)

    for seed in range(30):
        with Simulation(seed) as world:
            node = world.add_node("node", main)
            world.run_for(1)
            assert not node.is_alive
            outcomes.add(node.disk.contents("/text"))
            assert node.disk.paths() == ["/text"]
    assert outcomes == {b"first", b"last"}


def test_what_was_cancelled_may_happen_after_what_came_later() -> None:
    orders = set()

    async def main(order: list[str], runtime: Runtime) -> None:
        with runtime.files.open("/log", "create") as file:

            def write(name: str) -> None:
                order.append(name)
                file.sync()

            await runtime.run_blocking(write, "warm")
            node.disk.faults.slow_sync = 0.5
            for name in ("old", "new"):
                try:
                    async with asyncio.timeout(1):
                        await runtime.run_blocking(write, name)
                except TimeoutError:
                    pass
            await asyncio.sleep(30)

    for seed in range(60):
        order: list[str] = []
        with Simulation(seed) as world:
            node: Node = world.add_node("node", partial(main, order))
            world.run_for(60)
        orders.add(" ".join(order))
    assert orders >= {"warm old new", "warm new old", "warm new", "warm"}


def test_context_variables_stay_on_their_side() -> None:
    inside: list[str] = []

    async def main(runtime: Runtime) -> None:
        PLACE.set("loop")

        def work() -> None:
            inside.append(PLACE.get())
            PLACE.set("thread")

        for _ in range(2):
            await runtime.run_blocking(work)
        inside.append(PLACE.get())

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_for(1)
    assert inside == ["nowhere", "nowhere", "loop"]


def test_no_event_loop_runs_around_the_work() -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            await runtime.run_blocking(asyncio.get_running_loop)
        assert asyncio.get_running_loop() is not None

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_for(1)


def test_time_that_the_node_spends_in_calls_is_not_there_for_it() -> None:
    ran_at: list[float] = []

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        with runtime.files.open("/log", "create") as file:
            loop.call_later(0.5, lambda: ran_at.append(loop.time()))
            loop.call_later(0.6, lambda: ran_at.append(loop.time()))
            await asyncio.sleep(0.1)
            file.append(b"x")
            file.sync()
            await asyncio.sleep(0)
            ran_at.append(loop.time())
            await asyncio.Event().wait()

    with Simulation(1) as world:
        node = world.add_node("node", main)
        node.disk.faults.slow_sync = 1.0
        world.run_for(20)
        assert node.incarnation is not None
        assert node.incarnation.gate is None
    assert 10.1 < min(ran_at) <= max(ran_at) < 10.2
    assert len(ran_at) == 3


def test_a_node_can_die_and_be_paused_while_it_is_busy() -> None:
    beats: list[float] = []

    async def main(runtime: Runtime) -> None:
        with runtime.files.open("/log", "write") as file:
            while True:
                beats.append(runtime.clock.monotonic())
                file.sync()
                await asyncio.sleep(1)

    with Simulation(1) as world:
        node = world.add_node("node", main)
        node.disk.faults.slow_sync = 1.0
        world.run_for(5)
        assert len(beats) == 1
        node.pause()
        world.run_for(10)
        assert len(beats) == 1
        node.resume()
        world.run_for(1)
        assert len(beats) == 2
        node.restart()
        world.run_for(1)
        assert len(beats) == 3


def test_code_that_swallows_its_own_death_gets_no_more_work_done() -> None:
    done = 0

    async def main(runtime: Runtime) -> None:
        def work() -> None:
            nonlocal done
            done += 1

        while True:
            with suppress(Exception, NodeKilled, asyncio.CancelledError):
                await asyncio.get_running_loop().run_in_executor(None, work)

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        before = done
        node.crash()
        with pytest.raises(SimulationFailed, match="outlive the crash"):
            world.run_for(1)
    assert done == before


def test_a_callback_is_called_where_it_was_added_and_not_when_it_was_taken_back() -> None:
    heard: list[str] = []

    def hear(work: asyncio.Future[int]) -> None:
        heard.append(f"{work.result()} {PLACE.get()}")

    async def main(runtime: Runtime) -> None:
        PLACE.set("here")
        for wait_s in (0, 0.00001):
            for is_taken_back in (True, False):
                work = runtime.run_blocking(int, "7")
                await asyncio.sleep(wait_s)
                work.add_done_callback(hear)
                if is_taken_back:
                    assert work.remove_done_callback(hear) == 1
                    assert work.remove_done_callback(hear) == 0
                await asyncio.sleep(1)
                assert await work == 7

    for seed in range(20):
        with Simulation(seed) as world:
            world.add_node("node", main)
            world.run_for(10)
        assert heard == ["7 here"] * 2
        heard.clear()


def test_who_waits_for_the_work_of_another_node_goes_on_in_a_turn_of_its_own() -> None:
    shared: list[asyncio.Future[None]] = []
    heard: list[float] = []

    async def works(runtime: Runtime) -> None:
        shared.append(runtime.run_blocking(lambda: None))
        await asyncio.Event().wait()

    async def waits(runtime: Runtime) -> None:
        await shared[0]
        heard.append(runtime.clock.monotonic())

    for seed in range(20):
        with Simulation(seed) as world:
            world.add_node("works", works)
            node = world.add_node("waits", waits)
            world.run_for(0.000001)
            node.pause()
            world.run_for(1)
            assert not heard
            node.resume()
            world.run_for(1)
        assert heard.pop() > 1
        shared.clear()


def test_work_is_seen_before_it_is_over_and_only_then() -> None:
    """Most of it happens in the moment in which it ends; not all, or nothing would race with it."""
    seen_early = 0

    async def main(runtime: Runtime) -> None:
        nonlocal seen_early
        ran: list[int] = []
        with runtime.files.open("/log", "create") as file:

            def work(number: int) -> None:
                file.sync()
                ran.append(number)

            for number in range(200):
                waiting = runtime.run_blocking(work, number)
                waiting.add_done_callback(lambda _: None)  # one that nobody awaits ends apart
                while not waiting.done():
                    seen_early += number in ran
                    await asyncio.sleep(0.0001)
                assert ran[-1] == number

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_for(5)
    assert 5 < seen_early < 100
