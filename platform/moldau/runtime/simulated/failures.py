"""Handles failures that no code awaited.

Invariants: a dead node has no failures (its code only ran to be cleared away); a node's own handler
gets only that node's failures; without a handler they end the simulation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.incarnation import CURRENT, Incarnation, NodeKilled

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop
    from moldau.runtime.simulated.turn import Turn

FailureSink = Callable[[str, "BaseException | None"], None]
Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


_UNKNOWN = object()


class Failures:
    """asyncio's exception handling for a loop that many nodes share."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._handlers: dict[Incarnation | None, Handler] = {}

    def in_callback(self, turn: Turn, error: BaseException) -> None:
        """Report an exception of a callback, as the node that the callback belongs to.

        asyncio's own callbacks raise CancelledError if a task whose result they read is cancelled,
        for example the server's for each open stream when a node is stopped; real loops only log
        that.
        """
        if isinstance(error, asyncio.CancelledError) and turn.is_machinery:
            return
        facts = {"message": f"exception in callback {turn!r}", "exception": error}
        turn._context.run(self._loop.call_exception_handler, facts)

    def report(self, context: dict[str, Any]) -> None:
        """Report a failure; `context` is that of asyncio."""
        owner = self._owner(context)
        error = context.get("exception")
        if owner is not None and not owner.alive:
            return
        if isinstance(error, NodeKilled):
            context = {**context, "message": f"code of another node used dead {error}'s runtime"}
        handler = self._handlers.get(owner)
        if handler is not None:
            as_owner = copy_context()
            as_owner.run(CURRENT.set, owner)
            as_owner.run(handler, self._loop, context)
        else:
            self._loop.default_exception_handler(context)

    @staticmethod
    def _owner(context: dict[str, Any]) -> Incarnation | None:
        for key in ("task", "future"):
            owner: Incarnation | object | None = getattr(context.get(key), "owner", _UNKNOWN)
            if owner is None or isinstance(owner, Incarnation):
                return owner
        return CURRENT.get()

    def hand_over(self, context: dict[str, Any]) -> None:
        """End the simulation with a failure that no handler took."""
        message = str(context.get("message", "unhandled failure"))
        task = context.get("task") or context.get("future")
        if isinstance(task, asyncio.Task):
            message = f"{message} (task {task.get_name()})"
        sink = self._loop.on_failure
        if sink is None:
            raise RuntimeError(message) from context.get("exception")
        sink(message, context.get("exception"))

    def set_handler(self, handler: Handler | None) -> None:
        """Set the handler for failures of the calling node; None removes it."""
        if handler is None:
            self._handlers.pop(self._loop.whose(), None)
        else:
            self._handlers[self._loop.whose()] = handler

    def handler(self) -> Handler | None:
        """Return the handler of the calling node."""
        return self._handlers.get(self._loop.whose())
