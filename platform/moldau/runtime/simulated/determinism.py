"""What a run takes out of the process: chance in sets and in the garbage collector.

Invariants: everything is put back when the loop stops; nothing here changes what code means, only
which of the allowed orders it sees, and that a node sees its own tasks and no others.

Sources of chance that are left in CPython and asyncio when tasks already have a deterministic hash:
`as_completed` puts bare coroutines, which hash by address, into a set before it makes tasks of
them; `gather` makes a future of its own kind; and the cyclic collector runs when allocation counts
say so, which calls finalizers at moments that depend on what the process did before.

The node that left the garbage is not known, so finalizers run on a node that was always dead.
What a living object needs in order to go (closing its connection) works without a node.
"""

from __future__ import annotations

import asyncio
import builtins
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.incarnation import CURRENT, Incarnation, NodeKilled
from moldau.runtime.simulated.tasks import SimulatedFuture

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop

YOUNG_COLLECTIONS = 16

_asyncio_tasks: Any = asyncio.tasks
_PlainGathering: Any = _asyncio_tasks._GatheringFuture


class SimulatedGathering(_PlainGathering):  # type: ignore[misc]
    """What `gather` returns, with a deterministic hash and the life it was made in."""

    def __init__(self, children: list[asyncio.Future[Any]], *, loop: SimulatedLoop) -> None:
        super().__init__(children, loop=loop)
        self.owner = CURRENT.get()

    __hash__ = SimulatedFuture.__hash__


def _ordered_set(items: Iterable[Any] = ()) -> Any:
    """asyncio's `set(...)`; what is not a future yet keeps the order in which it was given."""
    distinct = list(dict.fromkeys(items))
    if all(asyncio.isfuture(item) for item in distinct):
        return builtins.set(distinct)
    return distinct


@contextmanager
def deterministic_asyncio(loop: SimulatedLoop) -> Iterator[None]:
    """While active, asyncio's functions have one order, and each node has its own tasks."""
    everybodys: Callable[..., set[asyncio.Task[Any]]] = asyncio.all_tasks

    def all_tasks(of: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
        if of is not None and of is not loop:
            return everybodys(of)
        incarnation = loop.whose()
        tasks = loop.tasks if incarnation is None else incarnation.tasks
        return {task for task in tasks if not task.done()}

    package: Any = asyncio
    _asyncio_tasks.set = _ordered_set
    _asyncio_tasks._GatheringFuture = SimulatedGathering
    _asyncio_tasks.all_tasks = package.all_tasks = all_tasks
    try:
        yield
    finally:
        del _asyncio_tasks.set
        _asyncio_tasks._GatheringFuture = _PlainGathering
        _asyncio_tasks.all_tasks = package.all_tasks = everybodys


@contextmanager
def quiet_graves() -> Iterator[None]:
    """While active, nothing is printed when a finalizer of the dead is told that it is dead."""
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, NodeKilled):
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def context_of_nobody() -> Context:
    """A context of a node that was dead all along."""
    nobody = Incarnation("nobody", 0)
    nobody.poison()
    context = copy_context()
    context.run(CURRENT.set, nobody)
    return context


class Garbage:
    """Collects at fixed event counts instead of at allocation counts, from first use to `end`.

    Also while nothing runs: finalizers act on the world (a dropped stream closes its connection).
    """

    _users = 0
    _was_enabled = False
    freezes = True
    """Whether what exists at the beginning is frozen until the end, so that no collection walks it.
    A program that has frozen objects of its own sets this to False: a thaw would be of all, and
    without one the loop of each simulation stayed frozen, and its whole world with it."""

    def __init__(self) -> None:
        self._collections = 0
        self._active = False
        self._context = context_of_nobody()

    def begin(self) -> None:
        """Takes the collector over; the first of several simulations does, the last gives back."""
        if self._active:
            return
        self._active = True
        if Garbage._users == 0:
            Garbage._was_enabled = gc.isenabled()
            gc.disable()
            if Garbage.freezes:
                # What exists already is not this run's garbage: no collection need walk it.
                gc.freeze()
        Garbage._users += 1

    def collect(self) -> None:
        """Called at fixed event counts; mostly looks at what is young."""
        self._collections += 1
        self._context.run(gc.collect, 2 if self._collections % YOUNG_COLLECTIONS == 0 else 0)

    def end(self) -> None:
        """Gives the collector back."""
        if not self._active:
            return
        self._active = False
        Garbage._users -= 1
        if Garbage._users == 0:
            if Garbage.freezes:
                gc.unfreeze()
            if Garbage._was_enabled:
                gc.enable()
