"""Work on many logs, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from moldau.errors import without_frames

T = TypeVar("T")

AT_ONCE: Final = 4
"""The logs that are read or filled at the same time. Each has a chunk or two in memory."""


class Workers:
    """Limits the work of one backup or restore."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(AT_ONCE)

    def room(self) -> AbstractAsyncContextManager[None]:
        """Wait until there is room for the work of the block."""
        return self._room


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results, in order. The first failure ends all others, and is raised."""
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(each) for each in works]
    except BaseExceptionGroup as failures:
        raise without_frames(failures.exceptions[0]) from None
    return [each.result() for each in tasks]
