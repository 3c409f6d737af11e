"""What a run takes out of the process: chance in sets and in the garbage collector.

Invariants: everything is put back when the loop stops; nothing here changes what code means, only
which of the allowed orders it sees.

Two sources of chance are left in CPython and asyncio when tasks already have a deterministic hash:
`as_completed` and friends put bare coroutines, which hash by address, into a set before they make
tasks of them; and the cyclic collector runs when allocation counts say so, which calls finalizers
at moments that depend on what the process did before.
"""

from __future__ import annotations

import asyncio
import builtins
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

YOUNG_COLLECTIONS = 16


@contextmanager
def deterministic_asyncio(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While active, asyncio's `set(coroutines)` makes tasks of them in the order given."""

    def ordered_set(items: Iterable[Any] = ()) -> set[Any]:
        return builtins.set(
            item if asyncio.isfuture(item) else asyncio.ensure_future(item, loop=loop)
            for item in dict.fromkeys(items)
        )

    module: Any = asyncio.tasks
    module.set = ordered_set
    try:
        yield
    finally:
        del module.set


class Garbage:
    """Collects at fixed event counts instead of at allocation counts, from first use to `end`.

    Also while nothing runs: finalizers act on the world (a dropped stream closes its connection).
    """

    _users = 0
    _was_enabled = False

    def __init__(self) -> None:
        self._collections = 0
        self._active = False

    def begin(self) -> None:
        """Takes the collector over; the first of several simulations does, the last gives back."""
        if self._active:
            return
        self._active = True
        if Garbage._users == 0:
            Garbage._was_enabled = gc.isenabled()
            gc.disable()
            # What exists already is not this run's garbage: no collection need walk it.
            gc.freeze()
        Garbage._users += 1

    def collect(self) -> None:
        """Called at fixed event counts; mostly looks at what is young."""
        self._collections += 1
        gc.collect(2 if self._collections % YOUNG_COLLECTIONS == 0 else 0)

    def end(self) -> None:
        """Gives the collector back."""
        if not self._active:
            return
        self._active = False
        Garbage._users -= 1
        if Garbage._users == 0:
            gc.unfreeze()
            if Garbage._was_enabled:
                gc.enable()
