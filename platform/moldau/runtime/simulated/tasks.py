"""Tasks and futures whose order in a set is the order in which they were first put into one.

`asyncio.wait`, `TaskGroup` and `as_completed` iterate over sets of tasks. A plain task hashes by
its address, so that order changes from run to run; here the hash is a counter of the loop. The
classes extend the C implementations, and a number is only assigned when the hash is needed.

Invariant: its incarnation refers to a task until it is done, so the garbage collector never decides
whether waiting code continues.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.runtime.simulated.incarnation import CURRENT, Incarnation

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop

T = TypeVar("T")


class SimulatedFuture(asyncio.Future[T]):
    """A future with a deterministic hash, and the incarnation that created it."""

    __slots__ = ("_number", "owner")

    _loop: SimulatedLoop
    owner: Incarnation | None
    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            self._number = number = self._loop.next_number()
            return number


class SimulatedTask(asyncio.Task[T]):
    """A task with a deterministic hash, and the incarnation that created it."""

    __slots__ = ("_number", "owner")

    _loop: SimulatedLoop
    owner: Incarnation | None
    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            self._number = number = self._loop.next_number()
            return number


def new_future(loop: SimulatedLoop) -> SimulatedFuture[Any]:
    """Return a future of the code that is running now."""
    future: SimulatedFuture[Any] = SimulatedFuture(loop=loop)
    future.owner = CURRENT.get() or loop.whose()
    return future


def where_it_waits(task: asyncio.Task[Any]) -> str:
    """Return where a task waits, for reports: `name: own code (file:line) in what it awaits`."""
    frames: list[FrameType] = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None)
        if frame is None:
            break
        frames.append(frame)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None)
    if not frames:
        return task.get_name()
    own = [frame for frame in frames if "/asyncio/" not in frame.f_code.co_filename]
    place = (own or frames)[-1]
    code = place.f_code
    text = f"{task.get_name()}: {code.co_qualname} ({Path(code.co_filename).name}:{place.f_lineno})"
    innermost = frames[-1]
    return text if innermost is place else f"{text} in {innermost.f_code.co_qualname}"
