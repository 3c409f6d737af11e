"""Work that production hands to threads, run in the one thread there is.

Invariants: work runs at one moment of virtual time, between the call and its completion, so a crash
may fall before it (nothing happened), or after it (it happened and nobody heard); what the disk
says it cost passes before completion; work submitted together starts and completes in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from random import Random
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.turn import Turn

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop

HOP_MIN_NS = 5_000
HOP_MORE_NS = 55_000
"""One hop between the loop and a thread takes the least, and up to this much more."""


class BlockingWork:
    """The thread pool of every simulated node."""

    def __init__(self, loop: SimulatedLoop, random: Random) -> None:
        self._loop = loop
        self._random = random

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Arranges for `function(*args)`; the future holds what it gives or raises."""
        incarnation = CURRENT.get()
        if incarnation is not None:
            incarnation.check()
        future = self._loop.create_future()
        self._later(0, self._run, future, function, args)
        return future

    def _later(self, delay_ns: int, step: Callable[..., None], *args: Any) -> None:
        when_ns = (
            self._loop.now_ns + delay_ns + HOP_MIN_NS + int(self._random.random() * HOP_MORE_NS)
        )
        self._loop.schedule(when_ns, Turn(step, args, copy_context()))

    def _run(
        self, future: asyncio.Future[Any], function: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        if future.cancelled():
            return
        incarnation = CURRENT.get()
        disk = None if incarnation is None else incarnation.disk
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
        self._later(cost_ns, self._complete, future, result, error)

    @staticmethod
    def _complete(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
