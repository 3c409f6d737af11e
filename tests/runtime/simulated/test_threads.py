"""The threads of a simulated node: they wait in virtual time, and die with their node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import Empty

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.node import Main
from moldau.runtime.simulated.report import SimulationFailed
from moldau.runtime.threads import REAL, ask_loop, here


def with_thread(run: Callable[[], None]) -> Main:
    async def main(runtime: Runtime) -> None:
        here().start(run, "worker")
        await asyncio.Event().wait()

    return main


def run_for_a_second(main: Main) -> None:
    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_for(1.0)


def test_outside_of_a_simulation_threads_are_those_of_the_process() -> None:
    assert here() is REAL


def test_a_thread_waits_in_virtual_time() -> None:
    times: list[float] = []

    def run() -> None:
        with pytest.raises(Empty):
            here().queue().get(timeout=100.0)
        times.append(here().monotonic())

    with Simulation(1) as world:
        world.add_node("node", with_thread(run))
        world.run_until(lambda: times, within=200)
    assert 100 <= times[0] < 101


def test_threads_pass_items_on_in_order_and_a_run_is_repeated() -> None:
    def story() -> tuple[list[int], object]:
        got: list[int] = []

        async def main(runtime: Runtime) -> None:
            threads = here()
            items = threads.queue()

            def write() -> None:
                for number in range(100):
                    items.put(number)

            threads.start(write, "writer")
            threads.start(lambda: got.extend(items.get() for _ in range(100)), "reader")
            await asyncio.Event().wait()

        with Simulation(1) as world:
            world.add_node("node", main)
            world.run_until(lambda: len(got) == 100, within=10)
            return got, world.fingerprint

    assert story() == story()
    assert story()[0] == list(range(100))


def test_a_thread_asks_the_loop_of_its_node() -> None:
    answers: list[str] = []

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()

        async def answer() -> str:
            await asyncio.sleep(1.0)
            return runtime.node

        here().start(lambda: answers.append(ask_loop(loop, answer(), 5.0)), "asker")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3.0)

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_until(lambda: not node.is_alive, within=10)
    assert answers == ["node"]


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    errors: list[Exception] = []

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()

        def ask() -> None:
            try:
                ask_loop(loop, asyncio.sleep(60.0), 5.0)
            except TimeoutError as error:
                errors.append(error)

        here().start(ask, "asker")
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_until(lambda: errors, within=10)


def test_a_thread_dies_with_its_node_wherever_it_waits() -> None:
    ended: list[str] = []

    def run() -> None:
        try:
            here().queue().get()
        finally:
            ended.append("cleaned up")
            here().queue().get()  # a dead thread waits for nothing
            ended.append("went on")

    with Simulation(1) as world:
        node = world.add_node("node", with_thread(run))
        world.run_for(1.0)
        node.crash()
        world.run_for(1.0)
        assert node.incarnation is None
    assert ended == ["cleaned up"]


def test_a_thread_of_a_paused_node_stands_still() -> None:
    times: list[float] = []

    def run() -> None:
        while True:
            with pytest.raises(Empty):
                here().queue().get(timeout=1.0)
            times.append(here().monotonic())

    with Simulation(1) as world:
        node = world.add_node("node", with_thread(run))
        world.run_for(2.5)
        node.pause()
        world.run_for(10.0)
        assert len(times) == 2
        node.resume()
        world.run_for(2.0)
    assert len(times) > 2


def test_a_lock_is_held_by_one_thread_at_a_time_and_again_by_its_holder() -> None:
    inside: list[str] = []

    async def main(runtime: Runtime) -> None:
        threads = here()
        lock = threads.lock()

        def run(name: str) -> None:
            with lock, lock:
                inside.append(name)
                with pytest.raises(Empty):
                    threads.queue().get(timeout=1.0)
                inside.append(name)

        threads.start(lambda: run("a"), "a")
        threads.start(lambda: run("b"), "b")
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_until(lambda: len(inside) == 4, within=10)
    assert inside in (["a", "a", "b", "b"], ["b", "b", "a", "a"])


def test_a_failure_of_a_thread_fails_the_run() -> None:
    def run() -> None:
        raise ValueError("a bug")

    with pytest.raises(SimulationFailed, match="a bug"):
        run_for_a_second(with_thread(run))


def test_the_loop_may_not_wait_for_a_thread() -> None:
    async def main(runtime: Runtime) -> None:
        here().queue().get()

    with pytest.raises(SimulationFailed, match="event loop"):
        run_for_a_second(main)
