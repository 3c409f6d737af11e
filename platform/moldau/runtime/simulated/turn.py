"""A callback that waits for its turn on the simulated loop.

asyncio's own handles spend half of their time on debug information; these have only what the loop
needs, and are still `asyncio.TimerHandle`s for their callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any


def _nothing(*_: object) -> None:
    """Do nothing, in place of a cancelled turn's callback."""


class Turn(asyncio.TimerHandle):
    """One scheduled callback, with its context."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        when: float = 0.0,
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self._when = when

    def cancel(self) -> None:
        """Cancel the callback; its function and arguments are released at once."""
        self._cancelled = True
        self._callback, self._args = _nothing, ()

    @property
    def is_machinery(self) -> bool:
        """Whether the callback is asyncio's own and not the program's."""
        callback: Any = self._callback
        while isinstance(callback, partial):
            callback = callback.func
        if isinstance(getattr(callback, "__self__", None), asyncio.Future):
            return True
        return str(getattr(callback, "__module__", "")).startswith("asyncio.")

    def __repr__(self) -> str:
        name = getattr(self._callback, "__qualname__", repr(self._callback))
        return f"<Turn {'cancelled' if self._cancelled else name}>"
