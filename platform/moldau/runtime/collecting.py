"""Full collections of a server's garbage, by the memory that the process has taken.

The collector of Python counts objects. A few cycles that hold large buffers, such as the bytes of
requests, do not move its counts, and stay. So the process looks at its own resident memory, and
collects everything when that has grown by a step. What the collection has freed goes back to the
system, because otherwise later garbage would fill that memory unseen, and the process would grow
by a step each time.

Invariants: between two full collections lie REST_S at least, so that they cost less than a
hundredth of the time. A collection that frees little doubles the step: the growth was no garbage.
It takes place when the event loop is quiet, or after PATIENCE looks that found it busy.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypeVar

from moldau.runtime.process_figures import resident_bytes

STEP_BYTES: Final = 64 << 20
LOOK_S: Final = 1.0
REST_S: Final = 10.0
QUIET_S: Final = 0.002
PATIENCE: Final = 20
T = TypeVar("T")


class Growth:
    """When a full collection is due. A pure core; all sizes are resident bytes of the process."""

    def __init__(self, resident: int) -> None:
        self._floor = resident
        self._step = STEP_BYTES

    def is_due(self, resident: int) -> bool:
        """Whether the memory has grown by a step since the last collection."""
        self._floor = min(self._floor, resident)
        return resident - self._floor >= self._step

    def on_collected(self, before: int, after: int) -> None:
        """Note what a collection has changed."""
        is_garbage = before - after >= (before - self._floor) // 2
        self._step = STEP_BYTES if is_garbage else self._step * 2
        self._floor = after


async def collecting(work: Coroutine[Any, Any, T]) -> T:
    """Do the work, and collect beside it when the memory has grown."""
    task = asyncio.ensure_future(_collect_for_ever())
    try:
        return await work
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _collect_for_ever() -> None:
    resident = resident_bytes()
    if resident is None:
        return  # the system does not say
    growth = Growth(resident)
    while True:
        await asyncio.sleep(LOOK_S)
        before = resident_bytes() or 0
        if growth.is_due(before):
            await _quiet()
            collect_all()
            growth.on_collected(before, resident_bytes() or 0)
            await asyncio.sleep(REST_S)


async def _quiet() -> None:
    """Wait for a moment in which the loop has little to do, up to PATIENCE looks."""
    for _ in range(PATIENCE):
        began = monotonic()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if monotonic() - began < QUIET_S:
            return
        await asyncio.sleep(QUIET_S * 10)


def collect_all() -> None:
    """Free all cycles, and return the memory that nothing uses to the system."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # glibc has it
        ctypes.CDLL(None).malloc_trim(0)
