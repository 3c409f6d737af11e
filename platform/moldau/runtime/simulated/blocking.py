"""Work that production hands to threads, run in the one thread there is.

Invariants: work runs at one moment of virtual time, between the call and its completion, so a crash
may fall before it (nothing happened), or after it (it happened and nobody heard); what the disk
says it cost passes before completion; work submitted together starts and completes in any order.
"""

from __future__ import annotations

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

    waiter: Callable[[Work], object] | None = None
    context: Context | None = None
    has_run = False

    def add_done_callback(
        self, callback: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Remembers the task that awaits; who comes later or beside it is called as usual."""
        if self.waiter is None and context is not None and not self.has_run:
            self.waiter, self.context = callback, context
        else:
            super().add_done_callback(callback, context=context)

    def cancel(self, msg: Any | None = None) -> bool:
        """The task goes on later, because it may be the one that cancels."""
        if not super().cancel(msg):
            return False
        if self.waiter is not None:
            self._loop.call_soon(self.waiter, self, context=self.context)
        return True


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
        loop = self._loop
        work = Work(loop=loop)
        work.owner = incarnation
        begins_ns = loop.now_ns + HOP_MIN_NS + int(self._random.random() * HOP_MORE_NS)
        loop.schedule(begins_ns, Turn(self._run, (work, function, args), copy_context()))
        return work

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
        loop = self._loop
        ends_ns = loop.now_ns + HOP_MIN_NS + int(self._random.random() * HOP_MORE_NS)
        if disk is not None:
            ends_ns += disk.take_latency_ns()
        work.has_run = True
        context = copy_context() if work.context is None else work.context
        loop.schedule(ends_ns, Turn(work_is_over, (work, result, error), context))


def work_is_over(work: Work, result: Any, error: Exception | None) -> None:
    """The task that waits goes on with what the call gave. Runs in the context of that task."""
    if work.cancelled():
        return
    if error is None:
        work.set_result(result)
    else:
        work.set_exception(error)
    if work.waiter is not None:
        work.waiter(work)
