"""Periodic work, and turns at what one at a time may do: the only part of this package with tasks.

Invariants: rounds of one kind never overlap; one that fails is reported by the runtime and does not
keep the next from coming; after `aclose` none runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moldau.runtime import Runtime

_AFTER_FAILURE_SECONDS: Final = 1.0
_LONGEST_REST_SECONDS: Final = 86_400.0
"""An interval may be longer than an event loop can count."""


class Rounds:
    """One kind of periodic work."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        work: Callable[[], Coroutine[Any, Any, bool]],
        interval: Callable[[], float],
    ) -> None:
        """`work` does one round and says whether the next one shall follow at once; otherwise it
        is due `interval()` seconds after this one has ended."""
        self._runtime = runtime
        self._name = name
        self._work = work
        self._interval = interval
        self._bell = asyncio.Event()
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def start(self, first: float | None = None) -> None:
        """The first round is due in `first` seconds, or after an interval."""
        assert self._task is None
        self._task = self._runtime.spawn(self._run(first), name=self._name)

    def reconsider(self) -> None:
        """The interval may be another one now."""
        self._bell.set()

    def end(self) -> None:
        """Let no other round begin."""
        self._is_closed = True
        self._bell.set()

    async def aclose(self) -> None:
        """Let the round that is under way end, and no other begin."""
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
    """One at a time for each key: `async with turns.of(key)`."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, asyncio.Lock] = {}

    def of(self, key: Hashable) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


def new_future() -> asyncio.Future[None]:
    """What a callback settles and a round awaits."""
    return asyncio.get_running_loop().create_future()


async def ended(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task, whatever becomes of it."""
    await asyncio.wait({task})


async def rest(seconds: float) -> None:
    """Wait, in a round that holds itself to a rate."""
    await asyncio.sleep(seconds)


def slots(count: int) -> asyncio.Semaphore:
    """So many at a time: `async with`."""
    return asyncio.Semaphore(count)
