"""Time-outs as asyncio has them, also in a task that was cancelled before.

Up to Python 3.11.2 (Debian 12 has it) `asyncio.timeout` takes any earlier cancellation of its task
for one that goes on, and lets its own CancelledError out in place of a TimeoutError. A TaskGroup
that has failed leaves its task so, which goes on all the same and calls us.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Timeout:
    """`asyncio.Timeout`, which tells its own CancelledError by what was there when it began."""

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
        """As asyncio's."""
        return self._inner.when()

    def reschedule(self, when: float | None) -> None:
        """As asyncio's."""
        self._inner.reschedule(when)


def _cancelling() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def timeout(seconds: float | None) -> Timeout:
    """TimeoutError for what is inside when it takes longer; None: it may."""
    return Timeout(asyncio.timeout(seconds))


def timeout_at(when: float | None) -> Timeout:
    """The same at a time of the loop's clock."""
    return Timeout(asyncio.timeout_at(when))
