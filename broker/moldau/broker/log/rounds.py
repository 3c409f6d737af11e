"""Periodic work, and locks against overlap: the only part of this package with tasks.

Invariants: rounds of one kind never overlap. The runtime reports a round that fails, and the next
one still runs. After `aclose` no round runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moldau.runtime import Runtime

_AFTER_FAILURE_SECONDS: Final = 1.0
_LONGEST_REST_SECONDS: Final = 86_400.0
"""Upper bound of a single wait: an interval may be longer than an event loop can count."""


class Rounds:
    """One kind of periodic work."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        work: Callable[[], Coroutine[Any, Any, bool]],
        interval: Callable[[], float],
    ) -> None:
        """`work` does one round and returns whether the next one must follow at once. Otherwise the
        next one is due `interval()` seconds after this one has ended."""
        self._runtime = runtime
        self._name = name
        self._work = work
        self._interval = interval
        self._bell = asyncio.Event()
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def start(self, first: float | None = None) -> None:
        """Start the task. The first round is due in `first` seconds, or after an interval."""
        assert self._task is None
        self._task = self._runtime.spawn(self._run(first), name=self._name)

    def reconsider(self) -> None:
        """Read the interval again: it may have changed."""
        self._bell.set()

    def end(self) -> None:
        """Start no more rounds."""
        self._is_closed = True
        self._bell.set()

    async def aclose(self) -> None:
        """Wait for the round under way to end, and start no more."""
        self.end()
        if self._task is not None:
            await ended(self._task)

    async def _run(self, first: float | None) -> None:
        clock = self._runtime.clock
        since = clock.monotonic()
        while not self._is_closed:
            pause = self._interval() if first is None else first
            left = since + pause - clock.monotonic()
            if left > 0:
                await self._rest(left)
                continue
            first = None
            is_more = await self._round()
            since = clock.monotonic()
            if is_more:
                first = 0.0

    async def _round(self) -> bool:
        task = self._runtime.spawn(self._work(), name=self._name)
        await asyncio.wait({task})
        if task.cancelled() or task.exception() is not None:
            await self._rest(_AFTER_FAILURE_SECONDS)
            return False
        return task.result()

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, _LONGEST_REST_SECONDS)):
                await self._bell.wait()
        except TimeoutError:
            return
        self._bell.clear()


class Turns:
    """One lock for each key: `async with turns.of(key)`."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, asyncio.Lock] = {}

    def of(self, key: Hashable) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


def new_future() -> asyncio.Future[None]:
    """Return a future that a callback resolves and a round awaits."""
    return asyncio.get_running_loop().create_future()


async def ended(task: asyncio.Task[Any]) -> None:
    """Wait until a task has ended, with any result."""
    await asyncio.wait({task})


async def rest(seconds: float) -> None:
    """Sleep, in a round that limits its own rate."""
    await asyncio.sleep(seconds)


def slots(count: int) -> asyncio.Semaphore:
    """Return a semaphore that admits `count` tasks at a time, for `async with`."""
    return asyncio.Semaphore(count)
