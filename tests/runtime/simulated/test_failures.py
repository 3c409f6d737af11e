"""What goes wrong in a run ends it, with a report that brings it back."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable
from itertools import count

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import NodeKilled, NodeState, Options, Simulation, SimulationFailed
from moldau.runtime.simulated.determinism import Garbage


def failure_of(run: Callable[[], object]) -> SimulationFailed:
    with pytest.raises(SimulationFailed) as failed:
        run()
    return failed.value


async def idle(runtime: Runtime) -> None:
    await asyncio.Event().wait()


def test_a_deadlock_says_what_waits_where() -> None:
    async def stuck(runtime: Runtime) -> None:
        never = asyncio.Event()

        async def wait_for_godot() -> None:
            await never.wait()

        await runtime.spawn(wait_for_godot(), name="godot")

    async def driver() -> None:
        await asyncio.Event().wait()

    with Simulation(7) as world:
        world.add_node("broker", stuck)
        failure = failure_of(lambda: world.run(driver))

    report = str(failure)
    assert failure.seed == 7
    assert "seed 7: Deadlock" in report
    assert "broker (running)" in report
    assert re.search(
        r"broker/godot: .*wait_for_godot \(test_failures.py:\d+\) in Event.wait", report
    )
    assert re.search(r"driver: .*driver \(test_failures.py:\d+\) in Event.wait", report)


def test_a_busy_loop_is_found_although_time_stands_still() -> None:
    async def spin(runtime: Runtime) -> None:
        for _ in count():
            await asyncio.sleep(0)

    with Simulation(1) as world:
        world.add_node("node", spin)
        assert "Livelock" in str(failure_of(lambda: world.run_for(1)))


def test_the_event_budget_ends_a_run() -> None:
    async def tick(runtime: Runtime) -> None:
        for _ in count():
            await asyncio.sleep(0.001)

    with Simulation(1, Options(events_max=50_000)) as world:
        world.add_node("node", tick)
        assert "EventBudget" in str(failure_of(lambda: world.run_for(1_000_000)))


def test_an_exception_that_nobody_awaits_fails_the_run() -> None:
    async def main(runtime: Runtime) -> None:
        async def fail() -> None:
            raise ValueError("forgotten")

        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        del task
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("node", main)
        report = str(failure_of(lambda: world.run_for(10)))

    assert "never retrieved" in report
    assert "forgotten" in report


def test_a_spawned_task_that_fails_ends_the_run_at_once() -> None:
    async def main(runtime: Runtime) -> None:
        async def fail() -> None:
            raise ValueError("at once")

        runtime.spawn(fail(), name="failing")
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("node", main)
        failure = failure_of(lambda: world.run_for(10))
        assert world.now < 1

    assert "node/failing" in str(failure)
    assert isinstance(failure.__cause__, ValueError)


def test_an_owner_can_deal_with_the_failure_itself() -> None:
    seen: list[str] = []

    async def main(runtime: Runtime) -> None:
        async def fail() -> None:
            raise ValueError("mine")

        task = runtime.spawn(fail(), name="failing", reported=False)
        with pytest.raises(ValueError, match="mine"):
            await task
        seen.append("dealt with")

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_for(1)

    assert seen == ["dealt with"]


def test_a_failing_callback_fails_the_run() -> None:
    async def main(runtime: Runtime) -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("node", main)
        assert "ZeroDivisionError" in str(failure_of(lambda: world.run_for(2)))


def test_a_failing_main_fails_the_run_unless_the_node_may() -> None:
    async def main(runtime: Runtime) -> None:
        raise RuntimeError("cannot start")

    with Simulation(1) as world:
        node = world.add_node("node", main, start=False)
        node.fails_run = False
        node.start()
        world.run_for(1)
        assert node.state.value == "exited"
        node.fails_run = True
        node.start()
        with pytest.raises(SimulationFailed, match="node: main failed"):
            world.run_for(1)


def test_a_broken_invariant_ends_the_run_at_the_event_that_broke_it() -> None:
    counter = [0]

    async def grow(runtime: Runtime) -> None:
        for _ in range(100):
            await asyncio.sleep(1)
            counter[0] += 1

    def small() -> None:
        assert counter[0] < 5, "it has grown"

    with Simulation(1) as world:
        world.add_node("node", grow)
        world.add_invariant(small)
        assert "it has grown" in str(failure_of(lambda: world.run_for(100)))
        assert counter == [5]
        assert world.now == 5


def test_the_report_has_the_last_events_of_each_node() -> None:
    with Simulation(3, Options(history=5)) as world:
        world.add_node("a", idle)
        world.add_node("b", idle)
        for number in range(20):
            world.note("a", "step", number)
        report = str(failure_of(lambda: world.run_until(lambda: False, within=5)))
        assert world.digest in report

    assert "step 19" in report
    assert "step 15" in report
    assert "step 14" not in report
    assert "start 1" in report, "b has its own history"


def test_a_node_can_handle_its_own_failures() -> None:
    handled: list[str] = []

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: handled.append(str(context["exception"])))
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)
        assert loop.get_exception_handler() is not None
        loop.set_exception_handler(None)
        assert loop.get_exception_handler() is None

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_for(2)

    assert handled == ["integer division or modulo by zero"]


def test_the_driver_gives_its_result_or_its_failure() -> None:
    async def good() -> int:
        await asyncio.sleep(1)
        return 5

    async def bad() -> None:
        raise LookupError("not there")

    with Simulation(1) as world:
        assert world.run(good) == 5
        with pytest.raises(SimulationFailed, match="not there"):
            world.run(bad)


def test_what_is_killed_at_the_end_of_a_failed_run_makes_no_more_noise() -> None:
    cleaned: list[str] = []

    async def main(runtime: Runtime) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("tried")
            runtime.files.write_text_atomic("/x", "y")

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1000)

    with Simulation(1) as world:
        nodes = [world.add_node(f"n{number}", main) for number in range(3)]
        assert "Deadlock" in str(failure_of(lambda: world.run(stubborn)))
    gc.collect()

    assert cleaned == ["tried"] * 3
    assert [node.disk.paths() for node in nodes] == [[]] * 3


def test_leftover_tasks_at_the_end_of_a_run_fail_it() -> None:
    refused: list[int] = []

    async def main(runtime: Runtime) -> None:
        for _ in count():
            try:
                await asyncio.Event().wait()
            except (asyncio.CancelledError, NodeKilled):
                refused.append(1)

    world = Simulation(1)
    world.add_node("node", main)
    world.run_for(1)
    assert "outlive the crash" in str(failure_of(world.close))


@pytest.mark.parametrize("is_frozen", [False, True])
def test_the_collector_is_given_back(is_frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a program that has frozen its own objects and says so, as the tests' own does."""
    assert gc.isenabled()
    gc.unfreeze()
    monkeypatch.setattr(Garbage, "freezes", not is_frozen)
    if is_frozen:
        gc.freeze()
    try:
        with Simulation(1) as first:
            first.run_for(1)
            assert not gc.isenabled()
            with Simulation(2) as second:
                second.run_for(1)
            assert not gc.isenabled()
        assert gc.isenabled()
        assert (gc.get_freeze_count() > 0) is is_frozen
    finally:
        gc.freeze()


async def serve_for_ever(runtime: Runtime) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with await runtime.network.serve_streams(serve, "", 1):
        await asyncio.Event().wait()


async def stay_connected(runtime: Runtime) -> None:
    await asyncio.sleep(0.1)
    kept = await runtime.network.open_streams("server", 1)
    await asyncio.Event().wait()
    assert kept


def test_stopping_a_server_of_streams_with_an_open_connection_is_no_failure() -> None:
    with Simulation(1) as world:
        node = world.add_node("server", serve_for_ever)
        world.add_node("client", stay_connected)
        world.run_for(1)
        node.stop()
        world.run_for(5)
        assert node.state is NodeState.EXITED


def test_a_callback_of_the_program_that_is_cancelled_is_a_failure() -> None:
    async def main(runtime: Runtime) -> None:
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.result())
        future.cancel()
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("node", main)
        assert "exception in callback" in str(failure_of(lambda: world.run_for(1)))


@pytest.mark.parametrize("way", ["shielded", "detached"])
def test_a_killed_node_that_gathers_is_no_failure(way: str) -> None:
    async def main(runtime: Runtime) -> None:
        gathered = asyncio.gather(asyncio.sleep(100), asyncio.sleep(100))
        if way == "shielded":
            await asyncio.shield(gathered)
        await asyncio.sleep(100)

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.crash()
        world.run_for(1)
        gc.collect()
        world.run_for(1)
        assert node.state is NodeState.CRASHED


def test_a_gathered_failure_of_a_living_node_fails_the_run() -> None:
    async def main(runtime: Runtime) -> None:
        async def fail() -> None:
            raise ValueError("forgotten")

        gathered = asyncio.gather(fail())
        await asyncio.sleep(1)
        del gathered
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("node", main)
        assert "forgotten" in str(failure_of(lambda: world.run_for(5)))


def test_using_the_runtime_of_a_dead_node_is_a_failure_of_the_living() -> None:
    runtimes: list[Runtime] = []

    async def first(runtime: Runtime) -> None:
        runtimes.append(runtime)
        await asyncio.Event().wait()

    async def second(runtime: Runtime) -> None:
        async def look() -> None:
            await asyncio.sleep(5)
            runtimes[0].clock.monotonic()

        runtime.spawn(look(), name="look")
        await asyncio.Event().wait()

    with Simulation(1) as world:
        node = world.add_node("first", first)
        world.add_node("second", second)
        world.run_for(1)
        node.crash()
        report = str(failure_of(lambda: world.run_for(10)))

    assert "used dead first's runtime (task second/look)" in report
