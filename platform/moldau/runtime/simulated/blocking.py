"""Work that production runs on threads, here run in the only thread.

Invariants: work runs at one moment of virtual time, anywhere between the call and its completion;
its cost on the disk passes before completion; work submitted together starts and completes in any
order; a cancelled call may still happen, later, as a thread cannot be stopped.

A crash can happen anywhere in work that is under way: work that has not run when its node dies is
run then, up to a call to the disk that the seed chooses, and dies in the middle of that call. So
work mostly runs when the time has passed that the same work took before, and completes in the same
event; one time in eight it runs anywhere in that time, so that others see its effects while it is
under way. Work that ran at once would be over before any crash could happen in it.

As on a thread, no event loop runs around the work, and context variables are not inherited.
"""

from __future__ import annotations

from asyncio import InvalidStateError, _set_running_loop
from collections.abc import Callable
from contextvars import Context, copy_context
from heapq import heappush
from random import Random
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.incarnation import CURRENT, Incarnation
from moldau.runtime.simulated.pipe import world_context
from moldau.runtime.simulated.tasks import SimulatedFuture
from moldau.runtime.simulated.turn import Turn

if TYPE_CHECKING:
    from moldau.runtime.simulated.disk import SimulatedDisk
    from moldau.runtime.simulated.loop import SimulatedLoop

HOP_MIN_NS = 5_000
HOP_MORE_NS = 1 << 16
"""A hop between the loop and a thread takes at least HOP_MIN_NS, and up to this much more."""
_HOP_BITS = HOP_MORE_NS - 1

RUNS_THOUGH_CANCELLED = 0.5


class Habit:
    """The cost of the last work with one name, from which that of the next is estimated."""

    __slots__ = ("bill_ns", "calls")

    def __init__(self) -> None:
        self.bill_ns = 0
        self.calls = 8
        """The calls to the disk; at first a guess."""


class Work(SimulatedFuture[Any]):
    """A call that one task or callback waits for: the event that completes it also runs that
    waiter.

    A plain future would schedule the waiter on the loop, which is one more event for each call.
    """

    __slots__ = (
        "args",
        "begins_ns",
        "bill_ns",
        "context",
        "function",
        "habit",
        "has_run",
        "meets_slow_sync",
        "waiter",
    )

    function: Callable[..., Any]
    args: tuple[Any, ...]
    habit: Habit
    begins_ns: int
    bill_ns: int
    meets_slow_sync: bool | None
    waiter: Callable[[Work], object] | None
    context: Context
    """The context of the waiter, if there is one."""
    has_run: bool

    def add_done_callback(
        self, callback: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Store the first callback as the waiter; later ones are called as usual."""
        if self.waiter is None and not self.has_run:
            self.waiter = callback
            self.context = copy_context() if context is None else context
        else:
            super().add_done_callback(callback, context=context)

    def remove_done_callback(self, callback: Callable[[Any], object], /) -> int:
        """Remove the callback; return how often it was registered."""
        removed = super().remove_done_callback(callback)
        if self.waiter is not None and self.waiter == callback:
            self.waiter = None
            removed += 1
        return removed

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel, and let the waiting task go on later, because it may be the caller."""
        if not super().cancel(msg):
            return False
        if self.waiter is not None:
            self._loop.call_soon(self.waiter, self, context=self.context)
        return True


class BlockingWork:
    """The thread pool of all simulated nodes."""

    def __init__(self, loop: SimulatedLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._draw = random.random
        self._draw_bits = random.getrandbits
        self._when_due = self._begin
        """The bound method: binding it each time costs as much as a call."""
        self._habits: dict[str, Habit] = {}
        """The last cost of work by name, on any node: it only affects when work runs."""

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Work:
        """Schedule `function(*args)`; the future gets its result or exception."""
        loop, draw_bits, next_order = self._loop, self._draw_bits, self._loop.next_order
        drawn = draw_bits(35)
        work = Work(loop=loop)
        work.function, work.args = function, args
        work.meets_slow_sync = work.waiter = None
        work.has_run = False
        try:
            work.habit = habit = self._habits[function.__qualname__]
        except (AttributeError, KeyError):
            work.habit = habit = self._new_habit(function)
        work.begins_ns = runs_ns = loop.now_ns + HOP_MIN_NS + (drawn & _HOP_BITS)
        work.owner = incarnation = CURRENT.get() or loop.whose()
        if incarnation is None:
            loop.schedule(runs_ns, Turn(self._when_due, (work,), world_context()))
            return work
        if not incarnation.alive:
            loop.refuse(incarnation)
            return work  # it would not accept the refusal: it waits for ever
        incarnation.works.append(work)
        bill_ns, disk = habit.bill_ns, incarnation.disk
        if disk is not None and disk.faults.slow_sync and bill_ns:
            bill_ns += self._draw_slow_sync(work, disk)
        if drawn >> 32:
            runs_ns += bill_ns + HOP_MIN_NS + (drawn >> 16 & _HOP_BITS)
        elif bill_ns:  # one time in eight
            runs_ns += int(self._draw() * bill_ns)
        turn = Turn(self._when_due, (work,), incarnation.thread_context.copy())
        heappush(loop.timers, (runs_ns, next_order(), turn))
        return work

    def last_moments(self, incarnation: Incarnation, *, is_killed: bool) -> None:
        """Run what a node's threads still do before its life ends.

        If the node is killed, a thread may die in the middle of its work, and the process with it.
        A process that ends by itself lets work finish that its threads have begun.
        """
        works = list(incarnation.works)
        incarnation.works.clear()
        self._random.shuffle(works)
        for work in works:
            calls, disk = work.habit.calls, incarnation.disk
            if not calls or disk is None:
                continue
            dies_in = self._random.randrange(calls + 2) if is_killed else calls + 1
            if dies_in == 0 or (not is_killed and self._random.random() < 0.5):
                continue  # it had not begun
            if dies_in > calls:
                dies_in = 0
            loop = self._loop
            loop.trace.note(loop.now_ns, incarnation.name, "last-work", dies_in or "whole")
            incarnation.thread_context.copy().run(self._run, work, disk, dies_in)
            if not incarnation.alive:
                return

    def _new_habit(self, function: Callable[..., Any]) -> Habit:
        name: str = getattr(function, "__qualname__", type(function).__name__)
        return self._habits.setdefault(name, Habit())

    def _draw_slow_sync(self, work: Work, disk: SimulatedDisk) -> int:
        """Decide now whether its sync is a slow one, so that the work can run late in that time."""
        work.meets_slow_sync = self._random.random() < disk.faults.slow_sync
        return disk.costs.slow_sync_ns if work.meets_slow_sync else 0

    def _begin(self, work: Work) -> None:
        """Run the work, as a thread of its owner, and complete it now if enough time has passed."""
        owner, disk = work.owner, None
        if owner is not None:
            owner.works.remove(work)
            disk = owner.disk
        is_cancelled = work.cancelled()
        if is_cancelled and self._draw() >= RUNS_THOUGH_CANCELLED:
            return
        value, error = self._run(work, disk)
        work.has_run = True
        if is_cancelled or not (owner is None or owner.alive):
            return
        now_ns = self._loop.now_ns
        ends_ns = work.begins_ns + work.bill_ns + HOP_MIN_NS
        if work.waiter is None:
            context = copy_context()
        else:
            context = work.context
            if ends_ns <= now_ns and context.get(CURRENT) is owner:
                context.run(work_is_over, work, value, error)
                return
        ends_ns = max(ends_ns, now_ns) + int(self._draw() * HOP_MORE_NS)
        self._loop.schedule(ends_ns, Turn(work_is_over, (work, value, error), context))

    def _run(
        self, work: Work, disk: SimulatedDisk | None, dies_in: int = 0
    ) -> tuple[Any, BaseException | None]:
        """Run the work without an event loop, to its end or until it dies in that call to the disk.

        Return its result or exception.
        """
        if disk is None:
            work.bill_ns = 0
        else:
            disk.begin_work()
            if dies_in:
                disk.die_in(dies_in, work.owner)
            elif work.meets_slow_sync is not None:
                disk.next_is_slow = work.meets_slow_sync
        _set_running_loop(None)
        try:
            return work.function(*work.args), None
        except StopIteration as failure:
            error = RuntimeError("blocking work raised StopIteration")
            error.__cause__ = failure
            return None, error
        except BaseException as failure:
            return None, failure
        finally:
            loop = self._loop
            _set_running_loop(loop if loop.running else None)
            if disk is not None:
                work.bill_ns = bill_ns = disk.end_work()
                if not dies_in and bill_ns < disk.costs.slow_sync_ns:
                    habit = work.habit
                    habit.bill_ns, habit.calls = bill_ns, disk.calls


def work_is_over(work: Work, value: Any, error: BaseException | None) -> None:
    """Pass the result of a call to its waiter, in the context of that task or callback."""
    try:
        if error is None:
            work.set_result(value)
        else:
            work.set_exception(error)
    except InvalidStateError:
        return  # cancelled meanwhile
    waiter = work.waiter
    if waiter is not None:
        waiter(work)
