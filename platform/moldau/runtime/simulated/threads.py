"""The threads of a simulated node: real ones, of which one at a time runs.

A thread runs in a turn of the simulated loop, from where it was parked to where it waits again; the
loop stands still meanwhile. So code with blocking calls runs unchanged, on a stack of its own, and
a run stays one story: virtual time and the seed decide which thread runs next.

Invariants: a thread runs only in a turn of its node, so a paused node's threads stand still too; it
waits only in a `SimulatedQueue` or `SimulatedLock`; a thread of a dead node gets NodeKilled where
it waits, and can change nothing afterwards.

Why threads and not greenlets: locks, thread-local data and the running loop belong to a thread, and
code asks for them ("am I on the loop's thread?"). With threads the answers are those of production.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.runtime.simulated.incarnation import CURRENT, Incarnation, NodeKilled
from moldau.runtime.simulated.pipe import world_context
from moldau.runtime.threads import LoopHost, Queue, ThreadLock, Threads, simulate

if TYPE_CHECKING:
    from moldau.runtime.interface import Runtime
    from moldau.runtime.simulated.loop import SimulatedLoop

T = TypeVar("T")

HOP_MIN_S: Final = 5e-6
HOP_MORE_S: Final = 65e-6
"""A thread that is woken runs after HOP_MIN_S, and up to this much more."""
LATE: Final = 1 / 64
LATE_S: Final = 0.02
"""One wake in so many takes up to this long, as on a busy machine."""
REFUSALS_MAX: Final = 1_000
"""How often a dead thread is told that it is dead, before it is left where it is."""


class KillCount(threading.local):
    """How often the calling thread was told that its node is dead."""

    times = 0


class SimulatedThread:
    """One thread of a node: it runs while its turn lasts."""

    def __init__(self, threads: SimulatedThreads, run: Callable[[], None], name: str) -> None:
        self._threads = threads
        self._run = run
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._is_woken = True
        self._has_ended = False
        self._fault: BaseException | None = None
        self.thread = threading.Thread(target=self._live, name=name, daemon=True)

    def begin(self) -> None:
        """Start the thread. It runs from its first turn on."""
        world_context().run(self.thread.start)  # a node itself may not start real threads
        self._threads.soon(self.turn)

    def _live(self) -> None:
        self._threads.current.thread = self
        self._go.acquire()
        with self:
            if self._threads.life.alive:
                self._threads.life.thread_context.copy().run(self._run)

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """End the thread, and keep its failure for the turn that it ends in."""
        if error is not None and not isinstance(error, NodeKilled):
            self._fault = error
        self._has_ended = True
        self._threads.living.remove(self)
        self._back.release()
        return True

    def turn(self) -> None:
        """Let it run until it waits or ends. Called by the loop."""
        if self._has_ended:
            return
        self._go.release()
        self._back.acquire()
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def wake(self) -> None:
        """Let it run soon."""
        if not self._is_woken:
            self._is_woken = True
            self._threads.soon(self.turn)

    def park(self, timeout_s: float | None) -> None:
        """Wait until `wake`, or for this long. Called by the thread itself."""
        self._is_woken = False
        timer = None if timeout_s is None else self._threads.loop.call_later(timeout_s, self.wake)
        self._threads.pause(self)
        if timer is not None:
            timer.cancel()

    def change_over(self) -> None:
        """Give the turn back to the loop, and wait for the next one."""
        self._back.release()
        self._go.acquire()

    @property
    def has_ended(self) -> bool:
        """Whether its function has returned."""
        return self._has_ended


class _Current(threading.local):
    thread: SimulatedThread | None = None


class NodesLoop:
    """The loop of a node's blocking clients: that of the node itself."""

    def __init__(self, runtime: Runtime, loop: SimulatedLoop, life: Incarnation) -> None:
        self.runtime = runtime
        self.loop: asyncio.AbstractEventLoop = loop
        self.ident: int | None = loop.ident
        self._life = life

    def is_alive(self) -> bool:
        """Whether the node lives."""
        return self._life.alive

    def close(self) -> None:
        """Do nothing: the loop is the node's."""


class SimulatedThreads(Threads):
    """The threads of one life of a node."""

    is_simulated = True
    current: Final = _Current()
    """The simulated thread that calls; None on the loop."""
    _killed: Final = KillCount()

    def __init__(
        self, runtime: Runtime, loop: SimulatedLoop, life: Incarnation, random: Random
    ) -> None:
        self.loop = loop
        self.life = life
        self._runtime = runtime
        self.living: list[SimulatedThread] = []
        self._draw = random.random
        self._made: dict[Callable[[], Any], Any] = {}

    def start(self, run: Callable[[], None], name: str) -> threading.Thread:
        self.life.check()
        thread = SimulatedThread(self, run, name)
        self.living.append(thread)
        thread.begin()
        return thread.thread

    def queue(self) -> Queue[Any]:
        return SimulatedQueue(self)

    def lock(self) -> ThreadLock:
        return SimulatedLock(self)

    def monotonic(self) -> float:
        return self.loop.time()

    def loop_host(self) -> LoopHost:
        return NodesLoop(self._runtime, self.loop, self.life)

    def once(self, kind: Callable[[], T]) -> T:
        found: T = self._made[kind] if kind in self._made else self._made.setdefault(kind, kind())
        return found

    def soon(self, turn: Callable[[], None]) -> None:
        """Take this turn of a thread after some moments."""
        wait_s = HOP_MIN_S + self._draw() * HOP_MORE_S
        if self._draw() < LATE:
            wait_s += self._draw() * LATE_S
        self.loop.call_later(wait_s, turn, context=self.life.thread_context.copy())

    def pause(self, thread: SimulatedThread) -> None:
        """Stop the calling thread until its next turn. Raise NodeKilled in a dead node."""
        self.check()
        thread.change_over()
        self.check()

    def check(self) -> None:
        """Raise NodeKilled in a dead node. A thread that does not accept it stays where it is."""
        if self.life.alive:
            return
        self._killed.times += 1
        thread = self.current.thread
        if self._killed.times > REFUSALS_MAX and thread is not None:
            thread.change_over()
        raise NodeKilled(self.life.name)

    def end(self) -> None:
        """Kill all threads of a dead node."""
        assert not self.life.alive, "poison first"
        for thread in list(self.living):
            thread.turn()


class SimulatedQueue:
    """A queue of a node's threads."""

    def __init__(self, threads: SimulatedThreads) -> None:
        self._threads = threads
        self._items: deque[Any] = deque()
        self._waiting: deque[SimulatedThread] = deque()

    def put(self, item: Any, /) -> None:
        """Add an item, and wake a thread that waits for one."""
        self._items.append(item)
        if self._waiting:
            self._waiting.popleft().wake()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next item. Raise `queue.Empty` if there is none in time."""
        until = None if timeout is None else self._threads.monotonic() + timeout
        self._threads.check()
        while not self._items:
            left_s = None if until is None else until - self._threads.monotonic()
            if not block or (left_s is not None and left_s <= 0):
                raise Empty
            wait_among(self._waiting, left_s)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        """Return the next item. Raise `queue.Empty` if there is none."""
        return self.get(block=False)

    def empty(self) -> bool:
        """Whether there is no item now."""
        return not self._items


class SimulatedLock:
    """A lock of a node's threads, and of its loop, which must find it free."""

    def __init__(self, threads: SimulatedThreads) -> None:
        self._threads = threads
        self._holder: object = None
        self._count = 0
        self._waiting: deque[SimulatedThread] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; return whether that was possible in time."""
        mine = threading.current_thread()
        until = None if timeout < 0 else self._threads.monotonic() + timeout
        while self._holder not in (None, mine):
            left_s = None if until is None else until - self._threads.monotonic()
            if not blocking or (left_s is not None and left_s <= 0):
                return False
            wait_among(self._waiting, left_s)
        self._holder = mine
        self._count += 1
        return True

    def release(self) -> None:
        """Release it once."""
        if self._holder is not threading.current_thread():
            raise RuntimeError("cannot release a lock of another thread")
        self._count -= 1
        if not self._count:
            self._holder = None
            if self._waiting:
                self._waiting.popleft().wake()

    def _is_owned(self) -> bool:
        """Whether the calling thread holds it (for `threading.Condition`)."""
        return self._holder is threading.current_thread()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def wait_among(waiting: deque[SimulatedThread], timeout_s: float | None) -> None:
    """Park the calling thread among those that wait, until it is woken or for this long."""
    thread = waiting_thread()
    waiting.append(thread)
    try:
        thread.park(timeout_s)
    finally:
        if thread in waiting:
            waiting.remove(thread)


def waiting_thread() -> SimulatedThread:
    """Return the calling thread, which may wait. The loop may not: nothing would go on."""
    thread = SimulatedThreads.current.thread
    if thread is None:
        raise RuntimeError("code of the event loop waits for a thread: nothing could go on")
    return thread


def _threads_here() -> Threads | None:
    life = CURRENT.get()
    return None if life is None else life.threads


simulate(_threads_here)
