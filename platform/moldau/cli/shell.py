"""Work on the client's event loop that a person watches: it can be interrupted, it can be slow.

Invariant: when `Interruptible.stop` returns, nothing of the work that it ended runs any more, so
that a loop that is closed next leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interruptible:
    """One piece of work after the other; Ctrl-C ends the one that is under way."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives."""
        self._task = asyncio.current_task()
        try:
            return await work
        finally:
            self._task = None

    async def stop(self) -> None:
        """Ends what is under way."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


async def pause(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` gives, or None when it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return None


async def within_or_later(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """The same; None too where it fails for a reason for which it may work later."""
    from moldau.errors.codes import KafkaError
    from moldau.link.backoff import may_work_later

    try:
        return await within(seconds, work)
    except KafkaError as error:
        if not may_work_later(error):
            raise
        return None


async def unless(
    work: Coroutine[Any, Any, object], every_s: float, is_futile: Callable[[], Awaitable[bool]]
) -> bool:
    """Whether `work` was done; no, where it was ended since it is futile, as is asked so often."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=every_s))[0]:
            if await is_futile() and not task.done():
                return False
        await task
        return True
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


async def patiently(
    work: Coroutine[Any, Any, T], every_s: float, tell: Callable[[float], object]
) -> T:
    """What `work` gives; as long as it takes, `tell` is called with the seconds since it began."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    task = loop.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=every_s))[0]:
            tell(loop.time() - begun)
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
