"""Work that production hands to threads, run in the one thread there is.

Invariants: work runs at one moment of virtual time, between the call and its completion, so a crash
may fall before it (nothing happened), or after it (it happened and nobody heard); what the disk
says it cost passes before completion; work submitted together starts and completes in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.tasks import SimulatedFuture
from moldau.runtime.simulated.turn import Turn

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop

HOP_MIN_NS = 5_000
HOP_MORE_NS = 55_000
"""One hop between the loop and a thread takes the least, and up to this much more."""


class Work(SimulatedFuture[Any]):
    """A call that one task awaits: the event that completes it is the task's next step.

    A plain future would ask the loop to wake the task, which is one event more for each call.
    """

    _waiter: Callable[[Work], object] | None = None
    _context: Context | None = None

    def add_done_callback(
        self, callback: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Remembers the task that awaits; whoever else comes is called as by any future."""
        if self._waiter is None and context is not None and not self.done():
            self._waiter, self._context = callback, context
        else:
            super().add_done_callback(callback, context=context)

    def cancel(self, msg: Any | None = None) -> bool:
        """The task goes on later, because it may be the one that cancels."""
        if not super().cancel(msg):
            return False
        if self._waiter is not None:
            self._loop.call_soon(self._waiter, self, context=self._context)
        return True

    def later(self, delay_ns: int, step: Callable[..., None], *args: Any) -> None:
        """Does `step(work, *args)` then, as the task that waits or else as the code that runs."""
        context = self._context
        turn = Turn(step, (self, *args), copy_context() if context is None else context)
        self._loop.schedule(self._loop.now_ns + delay_ns, turn)

    @staticmethod
    def complete(work: Work, result: Any, error: Exception | None) -> None:
        """The call is over, and the task goes on with what it gave."""
        if work.cancelled():
            return
        if error is None:
            work.set_result(result)
        else:
            work.set_exception(error)
        if work._waiter is not None:
            work._waiter(work)


class BlockingWork:
    """The thread pool of every simulated node."""

    def __init__(self, loop: SimulatedLoop, random: Random) -> None:
        self._loop = loop
        self._random = random

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Work:
        """Arranges for `function(*args)`; the future holds what it gives or raises."""
        incarnation = CURRENT.get()
        if incarnation is not None:
            incarnation.check()
        work = Work(loop=self._loop)
        work.owner = incarnation
        work.later(self._hop_ns(), self._run, function, args)
        return work

    def _hop_ns(self) -> int:
        return HOP_MIN_NS + int(self._random.random() * HOP_MORE_NS)

    def _run(self, work: Work, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if work.cancelled():
            return
        disk = None if work.owner is None else work.owner.disk
        if disk is not None:
            # What the node did inline before is not this call's bill.
            disk.take_latency_ns()
        error: Exception | None = None
        result = None
        try:
            result = function(*args)
        except Exception as failure:
            error = failure
        cost_ns = 0 if disk is None else disk.take_latency_ns()
        work.later(cost_ns + self._hop_ns(), Work.complete, result, error)
