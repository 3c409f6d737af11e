"""Runs work on the client's event loop for a command: interrupts it, limits it, reports silence.

Invariant: when `Interruptible.stop` returns, the stopped work has ended, so that a loop that is
closed next leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interruptible:
    """Runs one piece of work at a time; `stop`, on Ctrl-C, ends the running one."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`."""
        self._task = asyncio.current_task()
        try:
            return await work
        finally:
            self._task = None

    async def stop(self) -> None:
        """Cancel the running work and wait for its end."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


async def pause(seconds: float) -> None:
    """Wait for this many seconds."""
    await asyncio.sleep(seconds)


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`, or None if it takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return None


async def within_or_later(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`. Return None if it takes longer, or for a temporary error."""
    from moldau.errors.codes import KafkaError, may_work_later

    try:
        return await within(seconds, work)
    except KafkaError as error:
        if not may_work_later(error):
            raise
        return None


async def unless(
    work: Coroutine[Any, Any, object], every_s: float, is_futile: Callable[[], Awaitable[bool]]
) -> bool:
    """Run `work` to its end and return True. Ask `is_futile` every `every_s` seconds; if it is,
    cancel the work and return False."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=every_s))[0]:
            if await is_futile() and not task.done():
                return False
        await task
        return True
    finally:
        await _end(task)


async def patiently(
    work: Coroutine[Any, Any, T], every_s: float, report: Callable[[float], object]
) -> T:
    """Return the result of `work`. Meanwhile call `report` every `every_s` seconds with the time
    since the start, in seconds."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    task = loop.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=every_s))[0]:
            report(loop.time() - begun)
        return task.result()
    finally:
        await _end(task)


async def _end(task: asyncio.Task[object]) -> None:
    """Cancel a task and wait for its end. An error of its end is dropped, as the work is."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
