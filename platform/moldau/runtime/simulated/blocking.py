"""Work that production hands to threads, run in the one thread there is.

Invariants: work runs at one moment of virtual time, anywhere between the call and its completion;
what the disk says it cost passes before completion; work submitted together starts and completes in
any order; a call that was cancelled may still happen, later, as on a thread that nobody can stop.

A crash falls anywhere into work that is under way: what had not run yet when its node dies is run
then, up to a call to the disk that the seed chooses, and dies in the middle of that call. For this
the moment at which work runs is spread over the time that the same work took before: work that ran
at once would be over, in one piece, before any crash could meet it.

As on a thread, no event loop runs around the work, and context variables do not come along.
"""

from __future__ import annotations

from asyncio import _set_running_loop
from collections.abc import Callable
from contextvars import Context, copy_context
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
HOP_MORE_NS = 55_000
"""One hop between the loop and a thread takes the least, and up to this much more."""

RUNS_THOUGH_CANCELLED = 0.5


class Habit:
    """What work of one name took the last time, from which the next is judged."""

    __slots__ = ("bill_ns", "calls")

    def __init__(self) -> None:
        self.bill_ns = 0
        self.calls = 8
        """Calls to the disk; at first a guess."""


class Work(SimulatedFuture[Any]):
    """A call that one task awaits: the event that completes it is the task's next step.

    A plain future would ask the loop to wake the task, which is one event more for each call.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    habit: Habit
    begins_ns: int
    meets_slow_sync: bool | None = None
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
        self._habits: dict[str, Habit] = {}

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Work:
        """Arranges for `function(*args)`; the future holds what it gives or raises."""
        loop, random = self._loop, self._random.random
        work = Work(loop=loop)
        work.function, work.args = function, args
        work.begins_ns = runs_ns = loop.now_ns + HOP_MIN_NS + int(random() * HOP_MORE_NS)
        name: str = getattr(function, "__qualname__", type(function).__name__)
        habit = self._habits.get(name)
        if habit is None:
            habit = self._habits[name] = Habit()
        work.habit = habit
        work.owner = incarnation = CURRENT.get()
        if incarnation is None:
            loop.schedule(runs_ns, Turn(self._begin, (work,), world_context()))
            return work
        if not incarnation.alive:
            loop.refuse(incarnation)
            return work  # it would not take the refusal: it waits for ever
        incarnation.works.append(work)
        bill_ns = habit.bill_ns
        if bill_ns:
            if incarnation.disk is not None and incarnation.disk.faults.slow_sync:
                bill_ns += self._draw_slow_sync(work, incarnation.disk)
            runs_ns += int(random() * bill_ns)
        loop.schedule(runs_ns, Turn(self._begin, (work,), incarnation.thread_context.copy()))
        return work

    def last_moments(self, incarnation: Incarnation, *, is_killed: bool) -> None:
        """A life is about to end: what its threads still do.

        Killed, one of them may die in the middle of its work, and with it everybody. A process that
        ends by itself lets the work end that its threads have begun.
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
            incarnation.thread_context.copy().run(self._perform, work, disk, dies_in)
            if not incarnation.alive:
                return

    def _draw_slow_sync(self, work: Work, disk: SimulatedDisk) -> int:
        """Whether its sync is a slow one is known now, so that it can run late in that time."""
        work.meets_slow_sync = self._random.random() < disk.faults.slow_sync
        return disk.costs.slow_sync_ns if work.meets_slow_sync else 0

    def _begin(self, work: Work) -> None:
        owner = work.owner
        if owner is not None:
            owner.works.remove(work)
        if work.cancelled() and self._random.random() >= RUNS_THOUGH_CANCELLED:
            return
        loop = self._loop
        ends_ns = loop.now_ns
        if owner is None or owner.disk is None:
            result, error = self._run(work)
        else:
            bill_ns, result, error = self._perform(work, owner.disk)
            if work.begins_ns + bill_ns > ends_ns:
                ends_ns = work.begins_ns + bill_ns
        work.has_run = True
        if work.cancelled() or not (owner is None or owner.alive):
            return
        ends_ns += HOP_MIN_NS + int(self._random.random() * HOP_MORE_NS)
        context = copy_context() if work.context is None else work.context
        loop.schedule(ends_ns, Turn(work_is_over, (work, result, error), context))

    def _perform(
        self, work: Work, disk: SimulatedDisk, dies_in: int = 0
    ) -> tuple[int, Any, BaseException | None]:
        """Runs it, to its end or until it dies in that call to the disk; says what it cost."""
        disk.begin_work()
        if dies_in:
            disk.die_in(dies_in, work.owner)
        elif work.meets_slow_sync is not None:
            disk.next_is_slow = work.meets_slow_sync
        result, error = self._run(work)
        bill_ns = disk.end_work()
        if not dies_in and bill_ns < disk.costs.slow_sync_ns:
            work.habit.bill_ns, work.habit.calls = bill_ns, disk.calls
        return bill_ns, result, error

    def _run(self, work: Work) -> tuple[Any, BaseException | None]:
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
            if self._loop.is_running():
                _set_running_loop(self._loop)


def work_is_over(work: Work, result: Any, error: BaseException | None) -> None:
    """The task that waits goes on with what the call gave. Runs in the context of that task."""
    if work.cancelled():
        return
    if error is None:
        work.set_result(result)
    else:
        work.set_exception(error)
    if work.waiter is not None:
        work.waiter(work)
