"""Nodes die as processes die, and pause as they pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import NodeKilled, NodeState, Options, Simulation, SimulationFailed

FOREVER = 10**9


async def idle(runtime: Runtime) -> None:
    await asyncio.Event().wait()


def test_a_killed_node_cleans_nothing_up() -> None:
    """The planted mutant: a `finally` that writes would hide every crash bug."""
    log: list[str] = []

    async def main(runtime: Runtime) -> None:
        listener = await runtime.network.listen(asyncio.Protocol, "", 9092)
        _, writer = await runtime.network.open_streams("peer", 9092)
        try:
            await asyncio.Event().wait()
        finally:
            effects: dict[str, Callable[[], object]] = {
                "file": lambda: runtime.files.write_text_atomic("clean", "shutdown"),
                "clock": runtime.clock.monotonic_ns,
                "wall": runtime.clock.wall_ms,
                "write": lambda: writer.write(b"goodbye"),
                "eof": writer.write_eof,
                "spawn": lambda: runtime.spawn(idle(runtime), name="orphan"),
                "task": lambda: asyncio.create_task(idle(runtime)),
                "timer": lambda: asyncio.get_running_loop().call_later(1, log.append, "timer"),
                "buggify": lambda: runtime.buggify("point"),
                "thread": lambda: asyncio.get_running_loop().run_in_executor(None, log.append, "t"),
            }
            for name, effect in effects.items():
                try:
                    effect()
                except NodeKilled:
                    log.append(name)
            waits: dict[str, Callable[[], Awaitable[object]]] = {
                "sleep": lambda: asyncio.sleep(1),
                "connect": lambda: runtime.network.open_streams("peer", 9092),
                "listen": lambda: runtime.network.listen(asyncio.Protocol, "", 1),
                "resolve": lambda: runtime.network.resolve("peer", 9092),
                "blocking": lambda: runtime.run_blocking(log.append, "blocking ran"),
                "stdlib": lambda: asyncio.open_connection("peer", 9092),
            }
            for name, wait in waits.items():
                try:
                    await wait()
                except NodeKilled:
                    log.append(name)
            listener.close()
            writer.close()

    received: list[bytes] = []

    async def peer(runtime: Runtime) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.append(await reader.read())
            writer.close()

        await runtime.network.serve_streams(serve, "", 9092)
        await idle(runtime)

    with Simulation(1) as world:
        world.add_node("peer", peer)
        node = world.add_node("node", main)
        world.run_for(1)
        node.crash()
        world.run_for(10)
        assert node.disk.paths() == []

    assert log == [
        "file", "clock", "wall", "write", "eof", "spawn", "task", "timer", "buggify", "thread",
        "sleep", "connect", "listen", "resolve", "blocking", "stdlib",
    ]  # fmt: skip
    assert received == [b""], "the peer sees the end of the stream, and no goodbye"


def test_a_clean_stop_may_clean_up() -> None:
    async def main(runtime: Runtime) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            runtime.files.write_text_atomic("/clean", "shutdown")

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.stop()
        world.run_for(5)
        assert node.state is NodeState.EXITED
        assert len(node.disk.paths()) == 1


def test_tasks_of_a_killed_node_are_gone_at_once() -> None:
    def frames() -> Iterator[asyncio.Task[Any]]:
        return (task for task in world.loop.tasks if not task.done())

    async def main(runtime: Runtime) -> None:
        async def nested(depth: int) -> None:
            async with asyncio.TaskGroup() as group:
                if depth:
                    group.create_task(nested(depth - 1))
                    group.create_task(nested(depth - 1))
                group.create_task(asyncio.wait_for(asyncio.Event().wait(), 1000))
                await asyncio.gather(asyncio.sleep(1000), asyncio.shield(asyncio.sleep(2000)))

        await nested(4)

    with Simulation(1) as world:
        node = world.add_node("node", main)
        for _ in range(20):
            world.run_for(1)
            incarnation = node.incarnation
            assert incarnation is not None
            assert len(incarnation.tasks) > 50
            node.crash()
            world.run_for(0)
            assert incarnation.tasks == []
            node.start()
        assert not list(frames())
        assert node.starts == 21


def test_a_task_that_refuses_to_die_is_an_error() -> None:
    deaths: list[int] = []

    async def main(runtime: Runtime) -> None:
        async def immortal() -> None:
            for _ in range(FOREVER):
                try:
                    await asyncio.Event().wait()
                except (asyncio.CancelledError, NodeKilled):
                    deaths.append(1)

        await runtime.spawn(immortal(), name="immortal")

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.crash()
        with pytest.raises(SimulationFailed, match=r"outlive the crash(.|\n)*node/immortal"):
            world.run_for(1)


def test_callbacks_pending_at_the_moment_of_death_do_not_run() -> None:
    ran: list[str] = []

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        async def wait() -> None:
            await future
            ran.append("after await")

        runtime.spawn(wait(), name="wait")
        await asyncio.sleep(1)
        loop.call_soon(ran.append, "soon")
        loop.call_later(1, ran.append, "later")
        future.set_result(None)
        future.add_done_callback(lambda _: ran.append("done callback"))
        world.nodes["node"].crash()
        runtime.files.exists("x")

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_for(10)

    assert ran == []


def test_an_async_generator_of_a_dead_node_is_not_closed() -> None:
    closed: list[str] = []
    kept: list[Any] = []

    async def main(runtime: Runtime) -> None:
        async def numbers() -> Any:
            try:
                yield 1
                yield 2
            finally:
                closed.append("closed")

        generator = numbers()
        kept.append(generator)
        await anext(generator)
        await asyncio.Event().wait()

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.crash()
        world.run_for(1)
        kept.clear()
        world.run_for(1)

    assert closed == []


def test_a_restart_keeps_the_disk_and_begins_anew() -> None:
    lives: list[str] = []

    async def main(runtime: Runtime) -> None:
        before = runtime.files.read_text("/life") if runtime.files.exists("/life") else "none"
        lives.append(before)
        runtime.files.write_text_atomic("/life", str(len(lives)))
        await asyncio.Event().wait()

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.restart()
        world.run_for(1)
        node.lose_disk()
        node.start()
        world.run_for(1)

    assert lives == ["none", "1", "none"]


def test_a_node_can_be_restarted_with_other_code() -> None:
    versions: list[int] = []

    def version(number: int) -> Callable[[Runtime], Coroutine[Any, Any, None]]:
        async def main(runtime: Runtime) -> None:
            versions.append(number)
            await idle(runtime)

        return main

    with Simulation(1) as world:
        node = world.add_node("node", version(1))
        world.run_for(1)
        node.restart(version(2))
        world.run_for(1)
        node.restart()
        world.run_for(1)

    assert versions == [1, 2, 2]


def test_unsynced_bytes_survive_a_crash_but_not_always_a_power_loss() -> None:
    async def main(runtime: Runtime) -> None:
        if not runtime.files.exists("/log"):
            with runtime.files.open("/log", "create") as file:
                file.sync()
                runtime.files.sync_dir("/")
                file.append(b"x" * 100_000)
            await asyncio.Event().wait()
        sizes.append(runtime.files.stat("/log").size_bytes)
        await asyncio.Event().wait()

    outcomes = set()
    for seed in range(10):
        sizes: list[int] = []
        with Simulation(seed) as world:
            node = world.add_node("node", main)
            world.run_for(1)
            node.restart()
            world.run_for(1)
            node.power_loss()
            assert not node.host.is_up
            node.start()
            world.run_for(1)
        assert sizes[0] == 100_000
        outcomes.add(sizes[1])
    assert len(outcomes) > 1, "some seed loses bytes"


def test_a_paused_node_runs_nothing_and_comes_back_with_a_stale_view() -> None:
    ticks: list[float] = []

    async def main(runtime: Runtime) -> None:
        lease_until = runtime.clock.monotonic() + 5
        for _ in range(100):
            await asyncio.sleep(1)
            ticks.append(runtime.clock.monotonic())
        assert runtime.clock.monotonic() > lease_until

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(2.5)
        node.pause()
        assert node.state is NodeState.PAUSED
        world.run_for(60)
        assert ticks == [1, 2]
        node.resume()
        world.run_for(2)
        node.resume()

    assert ticks == [1, 2, 62.5, 63.5, 64.5]


def test_a_zombie_acts_on_what_it_knew() -> None:
    """A leader that was paused still believes in its lease until it looks at the clock again."""
    served: list[tuple[str, float]] = []

    async def leader(runtime: Runtime) -> None:
        is_leader = True

        def expire() -> None:
            nonlocal is_leader
            is_leader = False

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async for _ in reader:
                served.append(("leader" if is_leader else "not leader", world.now))
            writer.close()

        await runtime.network.serve_streams(serve, "", 9092)
        await asyncio.sleep(4.9999)
        asyncio.get_running_loop().call_later(1, expire)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        _, writer = await runtime.network.open_streams("leader", 9092)
        for _ in range(20):
            writer.write(b"write\n")
            await writer.drain()
            await asyncio.sleep(1)

    with Simulation(1) as world:
        node = world.add_node("leader", leader)
        world.add_node("client", client)
        world.run_for(4.5)
        node.pause()
        world.run_for(10)
        node.resume()
        world.run_for(1)

    stale = [what for what, when in served if when > 14]
    assert "leader" in stale, "right after the pause it still serves as leader"


def test_the_kernel_of_a_paused_node_accepts_until_its_queue_is_full() -> None:
    connected: list[int] = []
    failed: list[str] = []

    async def server(runtime: Runtime) -> None:
        await runtime.network.listen(asyncio.Protocol, "", 9092, backlog=3)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(1)
        for number in range(5):
            try:
                async with asyncio.timeout(10):
                    await runtime.network.connect(asyncio.Protocol, "server", 9092)
                connected.append(number)
            except TimeoutError:
                failed.append("timeout")
        await asyncio.Event().wait()

    with Simulation(1) as world:
        node = world.add_node("server", server)
        world.add_node("client", client)
        world.run_for(0.5)
        node.pause()
        world.run_for(60)
        node.resume()
        world.run_for(1)

    assert connected == [0, 1, 2]
    assert failed == ["timeout", "timeout"]


def test_a_node_can_be_killed_while_it_is_paused() -> None:
    ran: list[str] = []

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1)
        loop.call_soon(ran.append, "soon")
        await asyncio.sleep(1)
        ran.append("awake")

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(0.5)
        node.pause()
        world.run_for(5)
        node.crash()
        world.run_for(5)
        assert node.state is NodeState.CRASHED

    assert ran == []


def test_a_slow_node_takes_its_time_for_every_callback() -> None:
    async def work(runtime: Runtime) -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        finished.append(world.now)
        await asyncio.Event().wait()

    times = []
    for cost_ns in (0, 1_000_000):
        finished: list[float] = []
        with Simulation(1) as world:
            node = world.add_node("node", work)
            node.slow_down(cost_ns)
            world.run_for(10)
            node.slow_down(0)
            world.run_for(1)
        times.append(finished[0])

    assert times == [0, 0.1]


def test_main_that_returns_ends_the_process() -> None:
    seen: list[bytes] = []

    async def main(runtime: Runtime) -> None:
        transport, _ = await runtime.network.connect(asyncio.Protocol, "peer", 1)
        transport.write(b"bye")
        runtime.spawn(idle(runtime), name="left behind")

    async def peer(runtime: Runtime) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.read())
            writer.close()

        await runtime.network.serve_streams(serve, "", 1)
        await idle(runtime)

    with Simulation(1) as world:
        world.add_node("peer", peer)
        node = world.add_node("node", main)
        world.run_for(1)
        assert node.state is NodeState.EXITED
        assert not node.is_alive

    assert seen == [b"bye"]


def test_the_dead_do_not_hear_from_the_living() -> None:
    """Shared Python objects are no way around death."""
    heard: list[str] = []
    future: asyncio.Future[str]

    async def main(runtime: Runtime) -> None:
        nonlocal future
        future = asyncio.get_running_loop().create_future()
        heard.append(await asyncio.shield(future))

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.crash()
        world.run_for(1)
        future.set_result("news")
        world.run_for(1)

    assert heard == []


def test_an_effect_under_a_broad_except_does_not_keep_a_killed_node_going() -> None:
    attempts: list[str] = []

    async def main(runtime: Runtime) -> None:
        for _ in range(FOREVER):
            try:
                attempts.append("try")
                await runtime.run_blocking(lambda: None)
                await asyncio.sleep(1)
            except Exception:
                attempts.append("swallowed")

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(5)
        count = len(attempts)
        node.crash()
        world.run_for(100)

    assert len(attempts) == count
    assert "swallowed" not in attempts


def test_blocking_work_may_happen_although_nobody_hears_of_it() -> None:
    heard: list[bool] = []
    wrote: list[bool] = []

    async def main(runtime: Runtime) -> None:
        def write() -> None:
            runtime.files.write_text_atomic("/written", "yes")

        await asyncio.sleep(1)
        await runtime.run_blocking(write)
        heard[-1] = True

    for step in range(60):
        heard.append(False)
        with Simulation(step) as world:
            node = world.add_node("node", main)
            world.run_for(1 + step * 0.00003)
            node.crash()
            world.run_for(1)
            wrote.append("/written" in node.disk.paths())

    outcomes = set(zip(wrote, heard, strict=True))
    assert outcomes == {(False, False), (True, False), (True, True)}


def test_what_a_pause_held_back_runs_in_order() -> None:
    ran: list[int] = []

    async def main(runtime: Runtime) -> None:
        for number in range(50):
            asyncio.get_running_loop().call_later(2 + number / 100, ran.append, number)
        await asyncio.Event().wait()

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        node.pause()
        world.run_for(10)
        assert ran == []
        node.resume()
        world.run_for(1)

    assert ran == list(range(50))


@pytest.mark.parametrize("step", range(30))
def test_waiting_for_blocking_work_can_be_cancelled_at_any_moment(step: int) -> None:
    outcomes: list[str] = []

    async def main(runtime: Runtime) -> None:
        work = runtime.run_blocking(outcomes.append, "ran")
        await asyncio.wait([work], timeout=step * 0.000005)
        outcomes.append("cancelled" if work.cancel() else "done")
        await asyncio.sleep(1)

    with Simulation(step) as world:
        world.add_node("node", main)
        world.run_for(5)

    assert outcomes in (
        ["cancelled"],
        ["cancelled", "ran"],
        ["ran", "cancelled"],
        ["ran", "done"],
    )


def test_blocking_work_can_be_awaited_late_and_by_several() -> None:
    heard: list[object] = []
    place: ContextVar[str] = ContextVar("place")

    async def wait(work: asyncio.Future[int], late_s: float) -> None:
        place.set(f"after {late_s}")
        await asyncio.sleep(late_s)
        heard.append((await work, place.get()))

    async def main(runtime: Runtime) -> None:
        for late_s in (0.0, 0.00003, 0.00006, 1.0):
            work = asyncio.get_running_loop().run_in_executor(None, int, "7")
            for _ in range(2):
                runtime.spawn(wait(work, late_s), name="waiter")
            await asyncio.sleep(2)

    for seed in range(20):
        heard.clear()
        with Simulation(seed) as world:
            world.add_node("node", main)
            world.run_for(10)
        assert heard == [(7, f"after {late}") for late in (0.0, 3e-05, 6e-05, 1.0) for _ in "ab"]


def test_blocking_work_takes_as_long_as_the_disk_says() -> None:
    took: list[float] = []

    async def main(runtime: Runtime) -> None:
        with runtime.files.open("/log", "create") as file:
            for _ in range(1000):
                file.append(b"x" * 100_000)
            await asyncio.sleep(0)
            before = runtime.clock.monotonic()
            await runtime.run_blocking(lambda: None)
            took.append(runtime.clock.monotonic() - before)
            before = runtime.clock.monotonic()
            await runtime.run_blocking(file.sync)
            took.append(runtime.clock.monotonic() - before)

    with Simulation(1) as world:
        node = world.add_node("node", main)
        node.disk.costs.sync_ns = 3_000_000_000
        world.run_for(10)

    assert took[0] < 0.001, "what was written inline before is not this call's bill"
    assert 3 < took[1] < 4


def test_a_node_sees_its_own_tasks_and_no_others() -> None:
    cancelled: list[str] = []
    everybodys = asyncio.all_tasks

    async def bystander(runtime: Runtime) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(runtime.node)
            raise

    async def shut_down(runtime: Runtime) -> None:
        for number in range(3):
            runtime.spawn(bystander(runtime), name=str(number))
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) == 4
        assert len(asyncio.all_tasks(asyncio.get_running_loop())) == 4
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(1)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with Simulation(1) as world:
        world.add_node("other", bystander)
        world.add_node("node", shut_down)
        world.run_for(5)
        assert cancelled == ["node"] * 3

    assert asyncio.all_tasks is everybodys, "asyncio is as it was"


def test_callbacks_of_a_dead_node_do_not_run_before_it_is_cleared_away() -> None:
    ran: list[str] = []

    async def main(runtime: Runtime) -> None:
        while True:
            await asyncio.sleep(0)
            ran.append(runtime.node)

    for seed in range(20):
        with Simulation(seed, Options(shuffle=True)) as world:
            node = world.add_node("node", main)
            world.add_node("other", main)
            world.run_until(lambda: len(ran) > 50, within=1)
            node.crash()
            ran.clear()
            world.run_until(lambda: len(ran) > 50, within=1)
            assert "node" not in ran
            ran.clear()
