"""One task drives a volatile core: asks it what there is to do, has it done, and waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.driver import Driver, SupervisedDriver
from moldau.runtime.restarts import RestartPolicy
from moldau.runtime.simulated import NodeState, Simulation


@dataclass(frozen=True, slots=True)
class Due:
    """What `Countdown` wants done."""

    step: int | None = None
    wake: float | None = None


@dataclass
class Countdown:
    """A core that wants each of its steps done, one a second, and nothing after a close."""

    left: int
    next_at: float = 0.0
    is_closed: bool = False
    asked_at: list[float] = field(default_factory=list)

    def ready(self, now: float) -> Due:
        self.asked_at.append(now)
        if self.is_closed or not self.left:
            return Due()
        return Due(step=self.left) if now >= self.next_at else Due(wake=self.next_at)

    def on_done(self, step: int, now: float) -> None:
        assert step == self.left
        self.left -= 1
        self.next_at = now + 1.0


def simulated(main: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None:
    with Simulation(1) as world:
        node = world.add_node("client", main)
        world.run_until(lambda: node.state is NodeState.EXITED, within=60.0)


def driver_of(runtime: Runtime, core: Countdown) -> Driver[Due]:
    async def act(due: Due) -> bool:
        if due.step is not None:
            core.on_done(due.step, runtime.clock.monotonic())
        return due.step is not None

    return Driver(runtime, "countdown", core.ready, act, lambda _: core.is_closed or not core.left)


def test_everything_is_done_in_time_and_then_the_task_ends() -> None:
    async def main(runtime: Runtime) -> None:
        core = Countdown(3)
        began = runtime.clock.monotonic()
        await driver_of(runtime, core).begin()
        assert core.left == 0
        assert runtime.clock.monotonic() - began == pytest.approx(2.0, abs=0.01)
        assert len(core.asked_at) == 3 + 2 + 1  # the steps, the waits, and the end

    simulated(main)


def test_a_poke_during_a_wait_or_an_action_is_followed_by_another_question() -> None:
    async def main(runtime: Runtime) -> None:
        core = Countdown(2, next_at=1000.0 + runtime.clock.monotonic())
        driver = driver_of(runtime, core)
        task = driver.begin()
        await asyncio.wait([task], timeout=1.0)
        assert core.left == 2
        core.next_at = 0.0
        driver.poke()
        await asyncio.wait([task], timeout=0.1)
        assert core.left == 1
        core.is_closed = True
        await driver.end(10.0)
        assert task.done()
        assert not task.cancelled()
        assert core.left == 1

    simulated(main)


def test_a_core_that_does_not_end_is_cancelled_after_the_timeout() -> None:
    async def main(runtime: Runtime) -> None:
        driver = driver_of(runtime, Countdown(1, next_at=1e9))
        task = driver.begin()
        began = runtime.clock.monotonic()
        await driver.end(5.0)
        assert task.cancelled()
        assert runtime.clock.monotonic() - began == pytest.approx(5.0, abs=0.01)
        assert not driver.is_alive

    simulated(main)


def test_a_failure_is_raised_once_and_the_task_can_be_started_again() -> None:
    async def main(runtime: Runtime) -> None:
        core = Countdown(1)
        fails = [True]

        async def act(due: Due) -> bool:
            if fails.pop():
                fails.append(False)
                raise ValueError("the shell has failed")
            core.left = 0
            return due.step is not None

        driver = Driver(runtime, "countdown", core.ready, act, lambda _: not core.left)
        driver.begin_or_raise()
        assert driver.task is not None
        await asyncio.wait([driver.task])
        assert not driver.is_alive
        with pytest.raises(ValueError, match="the shell has failed"):
            driver.begin_or_raise()
        fails[:] = [False, False, False]
        driver.begin_or_raise()
        assert driver.task is not None
        await driver.task
        assert core.left == 0

    simulated(main)


def test_what_is_left_is_finished_after_a_failure() -> None:
    async def main(runtime: Runtime) -> None:
        core = Countdown(2)
        driver = driver_of(runtime, core)
        task = driver.begin()
        task.cancel()
        await asyncio.wait([task])
        assert core.left == 2
        driver.go_on()
        driver.go_on()  # it runs already
        assert driver.task is not None
        assert driver.task is not task
        await driver.task
        assert core.left == 0

    simulated(main)


def test_a_supervised_driver_starts_again_after_each_failure_with_a_longer_pause() -> None:
    async def main(runtime: Runtime) -> None:
        core = Countdown(2)
        failures = [OSError("first"), OSError("second")]
        reported: list[str] = []
        is_done = asyncio.Event()

        async def act(due: Due) -> bool:
            if failures:
                raise failures.pop(0)
            if due.step is not None:
                core.on_done(due.step, runtime.clock.monotonic())
            if not core.left:
                is_done.set()
            return due.step is not None

        inner = Driver(runtime, "countdown", core.ready, act, lambda _: not core.left)
        policy = RestartPolicy(Backoff(10_000, 40_000))
        driver = SupervisedDriver(inner, runtime, policy, lambda error: reported.append(str(error)))
        began = runtime.clock.monotonic()
        driver.begin()
        await is_done.wait()
        assert reported == ["first", "second"]
        pauses_s, steps_s = 10.0 + 20.0, 1.0
        assert runtime.clock.monotonic() - began == pytest.approx(pauses_s + steps_s, rel=0.2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not driver.is_alive  # the core is over

    simulated(main)


def test_a_supervised_driver_that_is_closed_does_not_start_again() -> None:
    async def main(runtime: Runtime) -> None:
        core = Countdown(1)
        is_reported = asyncio.Event()

        async def act(due: Due) -> bool:
            raise OSError(f"step {due.step}")

        inner = Driver(runtime, "countdown", core.ready, act, lambda _: False)
        policy = RestartPolicy(Backoff(10_000, 40_000))
        driver = SupervisedDriver(inner, runtime, policy, lambda _: is_reported.set())
        driver.begin()
        await is_reported.wait()
        began = runtime.clock.monotonic()
        alive = [driver.is_alive]  # it waits for its next start
        await driver.aclose()
        alive += [driver.is_alive, inner.is_alive]
        assert alive == [True, False, False]
        assert runtime.clock.monotonic() == began

    simulated(main)
