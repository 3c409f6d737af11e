"""The threads of a process, and what they wait with.

    threads = here()
    lines = threads.queue()
    threads.start(read_lines, "reader")
    line = lines.get(timeout=1.0)

Code with threads (the blocking clients, Connect's tasks and connectors) starts and parks them only
through this module, so that it runs in a simulation too: there the threads of a node run one at a
time, in virtual time (`moldau.runtime.simulated.threads`).

Invariant: `here()` is the calling process: this one, or in a simulation the node that calls.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from moldau.runtime.interface import Runtime

T = TypeVar("T")


class Queue(Protocol[T]):
    """A queue between threads: `queue.SimpleQueue`, or its twin in a simulation."""

    def put(self, item: T, /) -> None:
        """Add an item; any thread may call this."""

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Return the next item. Raise `queue.Empty` if there is none in time."""

    def get_nowait(self) -> T:
        """Return the next item. Raise `queue.Empty` if there is none."""

    def empty(self) -> bool:
        """Whether there is no item now."""


class ThreadLock(AbstractContextManager[bool], Protocol):
    """A lock that its holder may take again."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; return whether that was possible in time."""

    def release(self) -> None:
        """Release it once."""


class LoopHost(Protocol):
    """An event loop for the blocking clients of a process, and the thread that it runs on."""

    runtime: Runtime
    loop: asyncio.AbstractEventLoop
    ident: int | None

    def is_alive(self) -> bool:
        """Whether the thread runs."""

    def close(self) -> None:
        """End the loop, its tasks and its thread."""


class Threads(ABC):
    """The threads of one process."""

    is_simulated = False

    @abstractmethod
    def start(self, run: Callable[[], None], name: str) -> threading.Thread:
        """Run `run` on a daemon thread, which does not keep the process from ending."""

    @abstractmethod
    def queue(self) -> Queue[Any]:
        """Return a new queue."""

    @abstractmethod
    def lock(self) -> ThreadLock:
        """Return a new lock that its holder may take again."""

    @abstractmethod
    def monotonic(self) -> float:
        """Return seconds that never decrease."""

    @abstractmethod
    def loop_host(self) -> LoopHost:
        """Return a loop for the blocking clients; it runs already."""

    @abstractmethod
    def once(self, kind: Callable[[], T]) -> T:
        """Return the one object of this class that the process has. The first call makes it."""


class RealThreads(Threads):
    """The threads of this process."""

    def __init__(self) -> None:
        self._made: dict[Callable[[], Any], Any] = {}

    def start(self, run: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def queue(self) -> Queue[Any]:
        return SimpleQueue()

    def lock(self) -> ThreadLock:
        return threading.RLock()

    def monotonic(self) -> float:
        return time.monotonic()

    def loop_host(self) -> LoopHost:
        from moldau.runtime.threaded import LoopInThread

        return LoopInThread("moldau-clients")

    def once(self, kind: Callable[[], T]) -> T:
        found: T
        try:
            found = self._made[kind]
        except KeyError:
            found = self._made.setdefault(kind, kind())
        return found


REAL: Final = RealThreads()


class _Simulations:
    """How simulations say which node calls; None while there are none."""

    def __init__(self) -> None:
        self.threads_here: Callable[[], Threads | None] | None = None


_SIMULATIONS: Final = _Simulations()


def simulate(threads_here: Callable[[], Threads | None]) -> None:
    """Ask this function first from now on which threads `here` are; None: those of the process."""
    _SIMULATIONS.threads_here = threads_here


def here() -> Threads:
    """Return the threads of the calling process."""
    if _SIMULATIONS.threads_here is None:
        return REAL
    return _SIMULATIONS.threads_here() or REAL


def ask_loop(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], timeout_s: float
) -> T:
    """Run a coroutine on the loop of another thread and return its result. Raise TimeoutError if it
    takes too long; it is cancelled then."""
    done = here().queue()
    asked = asyncio.run_coroutine_threadsafe(coroutine, loop)
    asked.add_done_callback(done.put)
    try:
        done.get(timeout=timeout_s)
    except Empty:
        asked.cancel()
        raise TimeoutError(f"no answer within {timeout_s} s") from None
    return asked.result()
