"""Work that waits for others or takes long, in one thread at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from moldau.runtime import Runtime

T = TypeVar("T")


class OneThread:
    """Does one step after the other, in their order. A caller that gives up leaves its step to its
    end, so a server that does not answer holds up one thread and no more. The end of a step wakes
    the next caller alone, however many wait."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def result(self, runtime: Runtime, step: Callable[[], T]) -> T:
        """Do the step, and return what it returns. Raise what it raises."""
        await self._lock.acquire()
        working: asyncio.Future[T] | None = None
        try:
            working = runtime.run_blocking(step)
        finally:
            if working is None:
                self._lock.release()
        working.add_done_callback(lambda _: self._lock.release())
        return await asyncio.shield(working)
