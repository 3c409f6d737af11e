"""Async generators that were started and not finished.

Invariant: a dropped one is closed by a task of the incarnation that started it, and one of a dead
incarnation is not closed at all, because its `finally` would be clean-up of a killed process.
asyncio keeps them in a weak set that iterates by address; here they are in the order of their
start.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import AsyncGenerator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.incarnation import CURRENT, Incarnation

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop

_Known = tuple["weakref.ref[AsyncGenerator[Any, Any]]", "Incarnation | None"]


class AsyncGenerators:
    """The hooks that Python calls for async generators, while the loop runs."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._known: dict[int, _Known] = {}
        self._previous: Any = None

    def __enter__(self) -> None:
        self._previous = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._started, finalizer=self._dropped)

    def __exit__(self, *failure: object) -> None:
        sys.set_asyncgen_hooks(*self._previous)

    def _started(self, generator: AsyncGenerator[Any, Any]) -> None:
        if len(self._known) & 255 == 255:
            self._known = {
                key: known for key, known in self._known.items() if known[0]() is not None
            }
        self._known[id(generator)] = (weakref.ref(generator), self._loop.whose())

    def _dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        known = self._known.pop(id(generator), None)
        incarnation = None if known is None else known[1]
        if self._loop.is_closed() or (incarnation is not None and not incarnation.alive):
            return
        context = copy_context()
        context.run(CURRENT.set, incarnation)
        context.run(self._loop.create_task, _close(generator))

    async def close_all(self) -> None:
        """Close the remaining generators of living incarnations, oldest first."""
        known, self._known = list(self._known.values()), {}
        for reference, incarnation in known:
            generator = reference()
            if generator is not None and (incarnation is None or incarnation.alive):
                await generator.aclose()


async def _close(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()
