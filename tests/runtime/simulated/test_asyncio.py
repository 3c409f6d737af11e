"""Unmodified asyncio runs on the simulated loop, in virtual time and in one order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import Options, RealWorldRefused, Simulation, SimulationFailed

T = TypeVar("T")


def play(driver: Callable[[], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    with Simulation(seed) as world:
        return world.run(driver)


def test_sleeping_takes_virtual_time_only() -> None:
    async def driver() -> float:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(86_400)
        return loop.time() - before

    assert play(driver) == 86_400


def test_a_sleeper_never_wakes_before_its_deadline() -> None:
    async def driver() -> int:
        loop = asyncio.get_running_loop()
        rounds = 0
        for step in (0.1, 1 / 3, 0.7, 1e-9, 2.2e-7):
            deadline = loop.time() + step
            while loop.time() < deadline:
                rounds += 1
                await asyncio.sleep(deadline - loop.time())
        return rounds

    assert play(driver) <= 10


def test_equal_deadlines_keep_their_order() -> None:
    async def driver() -> list[int]:
        order: list[int] = []
        for number in range(20):
            asyncio.get_running_loop().call_later(1, order.append, number)
        await asyncio.sleep(2)
        return order

    assert play(driver) == list(range(20))


def test_a_cancelled_timer_does_not_run() -> None:
    async def driver() -> list[str]:
        ran: list[str] = []
        loop = asyncio.get_running_loop()
        timer = loop.call_later(1, ran.append, "cancelled")
        loop.call_later(2, ran.append, "kept")
        timer.cancel()
        assert timer.cancelled()
        await asyncio.sleep(3)
        return ran

    assert play(driver) == ["kept"]


def test_many_cancelled_timers_do_not_pile_up() -> None:
    with Simulation(1) as world:

        async def driver() -> None:
            for _ in range(50_000):
                async with asyncio.timeout(1000):
                    await asyncio.sleep(0.001)

        world.run(driver)
        assert len(world.loop.timers) < 25_000


def test_task_groups_cancel_in_the_order_of_creation() -> None:
    async def driver() -> list[int]:
        order: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                order.append(number)

        async def fail_together() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(wait(number))
                await asyncio.sleep(0)
                raise ValueError("stop")

        with pytest.raises(ExceptionGroup) as caught:
            await fail_together()
        assert caught.group_contains(ValueError)
        return order

    assert play(driver) == list(range(50))


def test_wait_gives_sets_in_one_order() -> None:
    async def driver() -> list[str]:
        events = [asyncio.Event() for _ in range(30)]
        tasks = [asyncio.create_task(event.wait(), name=str(n)) for n, event in enumerate(events)]
        for event in events:
            event.set()
        done, pending = await asyncio.wait(tasks)
        assert not pending
        return [task.get_name() for task in done]

    assert play(driver) == play(driver)


def test_as_completed_starts_bare_coroutines_in_the_order_given() -> None:
    async def driver() -> tuple[list[int], list[int]]:
        started: list[int] = []

        async def work(number: int) -> int:
            started.append(number)
            await asyncio.sleep(1)
            return number

        finished = [await done for done in asyncio.as_completed([work(n) for n in range(40)])]
        return started, finished

    assert play(driver) == (list(range(40)), list(range(40)))
    assert not hasattr(asyncio.tasks, "set"), "asyncio is as it was"


def test_gather_and_wait_for_and_shield() -> None:
    async def driver() -> list[object]:
        async def after(seconds: float, value: str) -> str:
            await asyncio.sleep(seconds)
            return value

        results: list[object] = list(await asyncio.gather(after(2, "b"), after(1, "a")))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(after(10, "late"), timeout=1)
        inner = asyncio.create_task(after(1, "shielded"))
        outer = asyncio.shield(inner)
        outer.cancel()
        results.append(await inner)
        results.append(await asyncio.wait_for(after(1, "in time"), timeout=2))
        return results

    assert play(driver) == ["b", "a", "shielded", "in time"]


def test_queues_locks_conditions_and_barriers() -> None:
    async def driver() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
        condition = asyncio.Condition()
        ready = False
        taken: list[int] = []

        async def produce() -> None:
            for number in range(10):
                await queue.put(number)

        async def consume() -> None:
            while len(taken) < 10:
                async with condition:
                    await condition.wait_for(lambda: ready)
                taken.append(await queue.get())
                queue.task_done()

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
            await asyncio.sleep(1)
            async with condition:
                ready = True
                condition.notify_all()
        async with asyncio.timeout(5):
            await queue.join()
        return taken

    assert play(driver) == list(range(10))


def test_timeouts_end_what_takes_too_long() -> None:
    async def driver() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert play(driver) == 2.5


def test_an_async_generator_that_is_dropped_is_closed() -> None:
    async def driver() -> list[str]:
        log: list[str] = []

        async def numbers() -> AsyncIterator[int]:
            try:
                for number in range(10):
                    yield number
            finally:
                await asyncio.sleep(0.001)
                log.append("closed")

        async for number in numbers():
            if number == 3:
                break
        await asyncio.sleep(1)
        return log

    assert play(driver) == ["closed"]


def test_async_generators_left_over_can_be_shut_down() -> None:
    async def driver() -> list[int]:
        closed: list[int] = []

        async def endless(number: int) -> AsyncIterator[int]:
            try:
                while True:
                    yield number
            finally:
                closed.append(number)

        kept = [endless(number) for number in range(5)]
        for generator in kept:
            await anext(generator)
        await asyncio.get_running_loop().shutdown_asyncgens()
        return closed

    assert play(driver) == [0, 1, 2, 3, 4]


def test_threads_are_simulated_and_may_overtake_each_other() -> None:
    async def driver() -> list[int]:
        order: list[int] = []
        await asyncio.gather(*(asyncio.to_thread(order.append, number) for number in range(20)))
        return order

    order = play(driver)

    assert sorted(order) == list(range(20))
    assert order != list(range(20)), "threads start in any order"
    assert order == play(driver)
    assert order != play(driver, seed=2)


def test_an_exception_in_a_thread_reaches_the_awaiter() -> None:
    async def driver() -> None:
        def fail() -> None:
            raise OSError("disk on fire")

        with pytest.raises(OSError, match="disk on fire"):
            await asyncio.to_thread(fail)

    play(driver)


def test_tasks_that_nobody_refers_to_are_kept_alive() -> None:
    """asyncio refers to tasks weakly; a collection must not decide whether code goes on."""

    async def driver() -> list[int]:
        done: list[int] = []

        async def work(number: int) -> None:
            waiter = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(1 + number, waiter.set_result, None)
            await waiter
            done.append(number)

        for number in range(100):
            asyncio.create_task(work(number))  # noqa: RUF006 (this is the trap)
        for _ in range(30_000):
            await asyncio.sleep(0.01)
        return done

    assert play(driver) == list(range(100))


@pytest.mark.parametrize(
    "door",
    [
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.subprocess_exec(None, "true"),
        lambda loop: loop.add_signal_handler(15, print),
        lambda loop: loop.sock_recv(None, 1),
        lambda loop: loop.create_unix_server(None, "/tmp/x"),  # noqa: S108
        lambda loop: loop.create_datagram_endpoint(None),
    ],
)
def test_doors_to_the_real_world_are_shut(door: Callable[[Any], object]) -> None:
    async def driver() -> None:
        with pytest.raises(RealWorldRefused, match="not there in a simulation"):
            door(asyncio.get_running_loop())

    play(driver)


def test_tls_and_ready_made_sockets_are_refused() -> None:
    async def driver() -> None:
        with pytest.raises(RealWorldRefused, match="TLS"):
            await asyncio.open_connection("node", 1, ssl=True)
        loop: Any = asyncio.get_running_loop()
        with pytest.raises(RealWorldRefused, match="socket"):
            await loop.create_connection(asyncio.Protocol, sock=object())
        with pytest.raises(TypeError, match="unexpected options: flavour"):
            await loop.create_connection(asyncio.Protocol, "node", 1, flavour=1)
        with pytest.raises(RuntimeError, match="factory"):
            loop.set_task_factory(lambda *_: None)

    play(driver)


def test_the_loop_can_be_used_like_any_other() -> None:
    with Simulation(1) as world:
        loop = world.loop

        async def answer() -> int:
            await asyncio.sleep(1)
            return 42

        assert loop.run_until_complete(answer()) == 42
        assert not loop.is_running()
        loop.call_later(1, loop.stop)
        loop.run_forever()
        assert loop.time() == 2
        with pytest.raises(SimulationFailed, match="Deadlock"):
            world.run(lambda: asyncio.Event().wait())
    assert loop.is_closed()
    with pytest.raises(RuntimeError, match="closed"):
        loop.drive()


def test_a_loop_does_not_run_inside_a_loop() -> None:
    with Simulation(1) as world:

        async def driver() -> None:
            with pytest.raises(RuntimeError, match="already running"):
                world.loop.drive()

        world.run(driver)


def test_shuffling_changes_only_orders_that_nobody_promised() -> None:
    def order(seed: int) -> list[int]:
        with Simulation(seed, Options(shuffle=True)) as world:
            ran: list[int] = []

            async def driver() -> None:
                loop = asyncio.get_running_loop()
                for number in range(10):
                    loop.call_later(1, ran.append, number)
                await asyncio.sleep(2)
                for number in range(10, 20):
                    loop.call_soon(ran.append, number)
                await asyncio.sleep(0)

            world.run(driver)
            return ran

    first = order(1)

    assert first[:10] != list(range(10))
    assert sorted(first[:10]) == list(range(10))
    assert first[10:] == list(range(10, 20)), "call_soon promises its order"
    assert first == order(1)
    assert first != order(2)


def test_shuffling_draws_which_node_goes_first() -> None:
    def order(seed: int) -> list[tuple[str, int]]:
        ran: list[tuple[str, int]] = []

        async def main(runtime: Runtime) -> None:
            for number in range(3):
                ran.append((runtime.node, number))
                await asyncio.sleep(0)

        with Simulation(seed, Options(shuffle=True)) as world:
            for name in "abcd":
                world.add_node(name, main)
            world.run_for(1)
        return ran

    orders = [order(seed) for seed in range(10)]

    assert len({tuple(each) for each in orders}) == 10
    for each in orders:
        for name in "abcd":
            assert [number for node, number in each if node == name] == [0, 1, 2]
    assert orders[3] == order(3)


def test_the_module_level_random_is_not_touched() -> None:
    state = random.getstate()
    play(lambda: asyncio.to_thread(lambda: None))
    assert random.getstate() == state
