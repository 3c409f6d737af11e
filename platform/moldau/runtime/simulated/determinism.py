"""Removes the process's influence on a run: random order in sets and in the garbage collector.

Invariants: everything is restored when the loop stops; nothing here changes the meaning of code,
only which of the allowed orders it sees, and that a node sees only its own tasks.

These influences remain in CPython and asyncio when tasks already have a deterministic hash:
`as_completed` puts bare coroutines, which hash by address, into a set before it makes tasks of
them; `gather` makes a special kind of future; and the cyclic collector runs at certain allocation
counts, and so calls finalizers at moments that depend on what the process did before.

The node that left the garbage is not known, so finalizers run on a node that was always dead. What
a living object needs in order to end (closing its connection) works without a node.
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


class GatherFuture(_PlainGathering):  # type: ignore[misc]
    """The future that `gather` returns, with a deterministic hash and its incarnation."""

    def __init__(self, children: list[asyncio.Future[Any]], *, loop: SimulatedLoop) -> None:
        super().__init__(children, loop=loop)
        self.owner = CURRENT.get()

    __hash__ = SimulatedFuture.__hash__


def _ordered_set(items: Iterable[Any] = ()) -> Any:
    """Return asyncio's `set(...)`; items that are not futures yet keep their given order."""
    distinct = list(dict.fromkeys(items))
    if all(asyncio.isfuture(item) for item in distinct):
        return builtins.set(distinct)
    return distinct


@contextmanager
def deterministic_asyncio(loop: SimulatedLoop) -> Iterator[None]:
    """Give asyncio's functions one order, and each node only its own tasks, during the block."""
    everybodys: Callable[..., set[asyncio.Task[Any]]] = asyncio.all_tasks

    def all_tasks(of: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
        if of is not None and of is not loop:
            return everybodys(of)
        incarnation = loop.whose()
        tasks = loop.tasks if incarnation is None else incarnation.tasks
        return {task for task in tasks if not task.done()}

    package: Any = asyncio
    _asyncio_tasks.set = _ordered_set
    _asyncio_tasks._GatheringFuture = GatherFuture
    _asyncio_tasks.all_tasks = package.all_tasks = all_tasks
    try:
        yield
    finally:
        del _asyncio_tasks.set
        _asyncio_tasks._GatheringFuture = _PlainGathering
        _asyncio_tasks.all_tasks = package.all_tasks = everybodys


@contextmanager
def quiet_graves() -> Iterator[None]:
    """Print nothing during the block when a finalizer of a dead node gets NodeKilled."""
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
    """Return a context of a node that was always dead."""
    nobody = Incarnation("nobody", 0)
    nobody.poison()
    context = copy_context()
    context.run(CURRENT.set, nobody)
    return context


class Garbage:
    """Collects at fixed event counts instead of allocation counts, from first use to `end`.

    Also while nothing runs: finalizers act on the world (a dropped stream closes its connection).
    """

    _users = 0
    _was_enabled = False
    freezes = True
    """Whether objects that exist at the beginning are frozen until the end, so that no collection
    walks them. A program with frozen objects of its own sets this to False: unfreezing would affect
    all, and without it each simulation's loop would stay frozen, and its whole world with it."""

    def __init__(self) -> None:
        self._collections = 0
        self._active = False
        self._context = context_of_nobody()

    def begin(self) -> None:
        """Take the collector over: the first simulation does, and the last one restores it."""
        if self._active:
            return
        self._active = True
        if Garbage._users == 0:
            Garbage._was_enabled = gc.isenabled()
            gc.disable()
            if Garbage.freezes:
                # Existing objects are not this run's garbage: no collection needs to walk them.
                gc.freeze()
        Garbage._users += 1

    def collect(self) -> None:
        """Collect, at fixed event counts; mostly only young objects."""
        self._collections += 1
        self._context.run(gc.collect, 2 if self._collections % YOUNG_COLLECTIONS == 0 else 0)

    def end(self) -> None:
        """Restore the collector."""
        if not self._active:
            return
        self._active = False
        Garbage._users -= 1
        if Garbage._users == 0:
            if Garbage.freezes:
                gc.unfreeze()
            if Garbage._was_enabled:
                gc.enable()
