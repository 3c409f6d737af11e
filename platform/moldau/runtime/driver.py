"""The driver of a volatile core: one task that asks the core what there is to do, and has it done.

A volatile core (a member of a group, a session, a transaction) gets events by `on_x(...)`, which
change its state and return nothing. `ready(now)` returns one value: all there is to do, with the
time to come back. A shell gives the driver both halves:

    driver = Driver(runtime, "member of billing", core.ready, shell.act, shell.is_over)
    task = driver.begin()
    core.on_poll(now); driver.poke()       # something has happened
    await driver.end(timeout_s)            # after the event that makes `is_over` true

A core that no caller waits for has a `SupervisedDriver`: it reports what has ended the task, and
starts it again after a pause.

Invariants: one `act` at a time, and never beside a `ready`. No poke is lost: one that comes during
an `act` is followed by another `ready`. The task ends only when there is nothing to do and
`is_over`, by an exception of the core or the shell, or because it is cancelled. Whatever ended it,
`begin` and `go_on` start it again with the core as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from moldau.runtime.interface import Runtime
from moldau.runtime.restarts import RestartPolicy, Restarts
from moldau.runtime.timeouts import timeout

_NS_PER_MS: Final = 1_000_000


class Ready(Protocol):
    """What a core wants done, which only its shell looks at, and when to come back."""

    @property
    def wake(self) -> float | None:
        """The time (of the monotonic clock) of the next `ready` if nothing happens before."""
        ...


R = TypeVar("R", bound=Ready)


class Driver(Generic[R]):
    """The life of the task of one core."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        ready: Callable[[float], R],
        act: Callable[[R], Awaitable[bool]],
        is_over: Callable[[R], bool],
        *,
        reported: bool = False,
    ) -> None:
        """`act` does what the core wants, reports the outcome to the core, and returns whether
        there was anything to do. `is_over` says whether to end instead of waiting. Failures are
        logged by the runtime if `reported`, else left to the caller of `begin`."""
        self.task: asyncio.Task[None] | None = None
        """The task that runs, or ran last until its failure was raised or dropped."""
        self._runtime = runtime
        self._clock = runtime.clock
        self._name = name
        self._ready = ready
        self._act = act
        self._is_over = is_over
        self._reported = reported
        self._has_happened = asyncio.Event()

    @property
    def is_alive(self) -> bool:
        """Whether the task is running."""
        return self.task is not None and not self.task.done()

    def begin(self) -> asyncio.Task[None]:
        """Start the task."""
        self.task = self._runtime.spawn(self._drive(), name=self._name, reported=self._reported)
        return self.task

    def begin_or_raise(self) -> None:
        """Start the task if it is not running. If it has ended with an exception, raise that once;
        the next call starts it again."""
        if self.task is None:
            self.begin()
        elif self.task.done():
            ended, self.task = self.task, None
            ended.result()

    def go_on(self) -> None:
        """Start the task again to finish what is left, whatever has ended it."""
        if self.task is not None and self.task.done() and not self.task.cancelled():
            self.task.exception()  # it is not raised any more
        if not self.is_alive:
            self.begin()

    def poke(self) -> None:
        """Ask the core again: something has happened."""
        self._has_happened.set()

    async def _drive(self) -> None:
        while True:
            self._has_happened.clear()
            ready = self._ready(self._clock.monotonic())
            if await self._act(ready):
                continue
            if self._is_over(ready):
                return
            await self._wait(ready.wake)

    async def _wait(self, wake: float | None) -> None:
        if wake is None:
            await self._has_happened.wait()
            return
        with suppress(TimeoutError):
            async with timeout(max(0.0, wake - self._clock.monotonic())):
                await self._has_happened.wait()

    async def end(self, timeout_s: float) -> None:
        """Wait until the task has ended by itself; cancel it after `timeout_s`, or if this call is
        cancelled. Called inside the task, it does nothing."""
        task = self.task
        if task is None or task is asyncio.current_task():
            return
        self.poke()
        try:
            await asyncio.wait([task], timeout=timeout_s)
        finally:
            task.cancel()
            await asyncio.wait([task])


class SupervisedDriver(Generic[R]):
    """A driver that starts again after a failure, until it is closed or its core is over."""

    def __init__(
        self,
        driver: Driver[R],
        runtime: Runtime,
        policy: RestartPolicy,
        report: Callable[[Exception], None],
    ) -> None:
        """`report` is called with each exception that has ended the driver. The policy must be one
        without end."""
        assert policy.failures_max is None
        self._driver = driver
        self._runtime = runtime
        self._policy = policy
        self._report = report
        self._task: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the driver runs, or will again."""
        return self._task is not None and not self._task.done()

    def begin(self) -> None:
        """Start the driver."""
        self._task = self._runtime.spawn(self._keep(), name="supervised driver")

    def poke(self) -> None:
        """Ask the core again: something has happened."""
        self._driver.poke()

    async def aclose(self) -> None:
        """End the driver."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep(self) -> None:
        restarts = Restarts(self._policy)
        while True:
            restarts.on_up(self._now_ms())
            try:
                await self._driver.begin()
            except Exception as error:
                self._report(error)
            else:
                return
            pause_ms = restarts.on_failure(self._now_ms(), self._runtime.random.random())
            assert pause_ms is not None
            await asyncio.sleep(pause_ms / 1000)

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // _NS_PER_MS
