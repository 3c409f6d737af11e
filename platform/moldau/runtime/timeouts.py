"""asyncio's timeouts, which also work in a task that was cancelled before.

Up to Python 3.11.2 (used in Debian 12) `asyncio.timeout` takes any earlier cancellation of its task
for a present one, and raises its own CancelledError instead of TimeoutError. A TaskGroup that has
failed leaves such a task, which continues and calls us.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Timeout:
    """An `asyncio.Timeout` that detects its own CancelledError by the count of earlier ones."""

    def __init__(self, inner: asyncio.Timeout) -> None:
        self._inner = inner
        self._before = 0

    async def __aenter__(self) -> Self:
        self._before = _cancelling()
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)
        is_own = self._inner.expired() and _cancelling() <= self._before
        if is_own and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def when(self) -> float | None:
        """Return the deadline, as asyncio's method does."""
        return self._inner.when()

    def reschedule(self, when: float | None) -> None:
        """Change the deadline, as asyncio's method does."""
        self._inner.reschedule(when)


def _cancelling() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def timeout(seconds: float | None) -> Timeout:
    """Raise TimeoutError in the block if it takes longer; None means no limit."""
    return Timeout(asyncio.timeout(seconds))


def timeout_at(when: float | None) -> Timeout:
    """Raise TimeoutError in the block at this time of the loop's clock; None means no limit."""
    return Timeout(asyncio.timeout_at(when))
