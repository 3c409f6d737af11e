"""The deterministic event loop: asyncio's interface over virtual time.

Invariants: time moves only when nothing is ready, and then straight to the next timer; callbacks of
one node run in the order in which they became ready; every callback has its incarnation in its
context, and does not run while a gate holds that incarnation back (paused, slow, dead). Nothing
here reads a real clock, a real descriptor, an address of an object or the hash of a string.

Unmodified asyncio code (protocols, streams, TaskGroup, timeout, Condition, Queue, ...) runs on it,
because asyncio itself needs only `call_soon`, `call_at`, futures and tasks of the loop. It does not
extend `asyncio.BaseEventLoop`, whose debug bookkeeping and selector cost half of the speed.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from moldau.runtime.simulated.blocking import BlockingWork
from moldau.runtime.simulated.determinism import (
    Garbage,
    context_of_nobody,
    deterministic_asyncio,
    quiet_graves,
)
from moldau.runtime.simulated.failures import Failures, FailureSink
from moldau.runtime.simulated.generators import AsyncGenerators
from moldau.runtime.simulated.guard import GUARD
from moldau.runtime.simulated.incarnation import CURRENT, Gate, Incarnation, NodeKilled
from moldau.runtime.simulated.pipe import world_context
from moldau.runtime.simulated.refusal import RefusingLoop
from moldau.runtime.simulated.tasks import SimulatedFuture, SimulatedTask, new_future
from moldau.runtime.simulated.trace import Trace
from moldau.runtime.simulated.turn import Turn

if TYPE_CHECKING:
    from moldau.runtime.simulated.clock import NodeClock
    from moldau.runtime.simulated.sockets import Sockets

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

FOREVER_NS = 1 << 62
EVENTS_BETWEEN_MIXES = 250
EVENTS_BETWEEN_CHECKS = 20_000
CHECKS_WITHOUT_TIME = 25
AFTER_ALL_OTHERS = 1 << 128
"""The order of the end of a drive: after everything else at the same nanosecond."""
EVENTS_MAX = 1 << 62
REFUSALS_MAX = 10_000
"""The number of refusals for a dead incarnation, after which its code is left waiting instead."""


class Deadlock(Exception):
    """Nothing is left that could ever happen, and the run is not over."""


class Livelock(Exception):
    """Callbacks follow each other without end while time stands still."""


class EventBudgetSpent(Exception):
    """The run needed more events than it was allowed."""


def deadline_ns(when: float) -> int:
    """Return the whole nanoseconds at which these seconds have passed."""
    when_ns = ceil(when * 1e9)
    return when_ns if when_ns / 1e9 >= when else when_ns + 1


def _orders(shuffle: random.Random | None) -> Callable[[], int]:
    """Return the order of turns at the same nanosecond: as they were requested, or drawn."""
    number = count(1).__next__
    if shuffle is None:
        return number
    draw = shuffle.getrandbits
    return lambda: draw(30) << 64 | number()


class SimulatedLoop(RefusingLoop):
    """The event loop that runs every node of a simulation."""

    def __init__(
        self,
        trace: Trace | None = None,
        *,
        shuffle: random.Random | None = None,
        events_max: int = EVENTS_MAX,
    ) -> None:
        self.now_ns = 0
        self.ident = get_ident()
        """The thread that drives it."""
        self.life: Incarnation | None = None
        """The incarnation whose turn runs now."""
        self.events = 0
        self.trace = trace or Trace()
        self.sockets: Sockets | None = None
        self.blocking = BlockingWork(self, random.Random(0))
        self.checks: list[Callable[[], object]] = []
        self.on_failure: FailureSink | None = None
        self.tasks: list[asyncio.Task[Any]] = []
        self._shuffle = shuffle
        self._ready: deque[Turn] = deque()
        self.timers: list[tuple[int, int, Turn]] = []
        self.next_order = _orders(shuffle)
        self._numbers = 0
        self._batch = 0
        self._stopping = False
        self.running = False
        self._closed = False
        self.set_debug(False)
        self._events_max = events_max
        self._next_stop = self._next_mix = EVENTS_BETWEEN_MIXES
        self._next_check = EVENTS_BETWEEN_CHECKS
        self._end: Turn | None = None
        """The end of the present drive, among the timers."""
        self._still = (0, 0)
        self._refusals: dict[Incarnation, int] = {}
        self._garbage = Garbage()
        self._generators = AsyncGenerators(self)
        self._failures = Failures(self)

    # Time and callbacks

    def time(self) -> float:
        """Return seconds of virtual time; on a drifting node, as that node measures them."""
        incarnation = CURRENT.get() or self.whose()
        if incarnation is not None:
            clock = incarnation.clock
            if clock is not None and clock.drifts:
                return clock.local_ns() / 1e9
        return self.now_ns / 1e9

    def whose(self) -> Incarnation | None:
        """Return the incarnation that the running code belongs to; None is the world.

        Code that a node runs in a new `Context()` has no incarnation there, but still belongs to
        that node.
        """
        found = CURRENT.get()
        if found is None and self.life is not None and CURRENT not in copy_context():
            return self.life
        return found

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Turn:
        """Run the callback after everything that is already ready."""
        if context is None:
            context = copy_context()
        if CURRENT not in context:
            context.run(CURRENT.set, self.whose())
        turn = Turn(callback, args, context)
        self._ready.append(turn)
        return turn

    call_soon_threadsafe = call_soon

    def call_first(self, callback: Callable[..., object], *args: Any) -> None:
        """Run the callback, as the world, before anything that is already ready."""
        context = copy_context()
        context.run(CURRENT.set, None)
        self._ready.appendleft(Turn(callback, args, context))
        # It belongs before the batch whose order is drawn next.
        self._batch += 1

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Turn:
        """Run the callback after `delay` seconds on the clock of the calling node."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Turn:
        """Run the callback at `when` on the clock of the calling node."""
        incarnation = CURRENT.get() or self.whose()
        if context is None:
            context = copy_context()
        if CURRENT not in context:
            context.run(CURRENT.set, incarnation)
        turn = Turn(callback, args, context, when)
        # Rounded up: code that sleeps until a deadline must find that it has passed.
        try:
            when_ns = ceil(when * 1e9)
        except OverflowError:
            return turn  # infinity never comes
        if when_ns / 1e9 < when:
            when_ns += 1
        if incarnation is not None:
            if not incarnation.alive:
                self.refuse(incarnation)
                return turn
            clock = incarnation.clock
            if clock is not None and clock.drifts:
                when_ns = clock.instant_ns(when_ns)
        heappush(self.timers, (when_ns, self.next_order(), turn))
        return turn

    def reschedule(self, clock: NodeClock) -> None:
        """Move the timers of a node whose clock has a new rate from now on."""
        timers = self.timers
        for index, (_, order, turn) in enumerate(timers):
            owner = turn._context.get(CURRENT)
            # Turns that the network and the disk scheduled have no deadline on the node's clock.
            if turn._when and owner is not None and owner.clock is clock and not turn._cancelled:
                when_ns = max(self.now_ns, clock.instant_ns(deadline_ns(turn._when)))
                timers[index] = (when_ns, order, turn)
        heapify(timers)

    def schedule(self, when_ns: int, turn: Turn) -> None:
        """Add a turn to the timers."""
        heappush(self.timers, (when_ns, self.next_order(), turn))

    def make_ready(self, turn: Turn) -> None:
        """Add an existing turn behind everything that is ready."""
        self._ready.append(turn)

    # Futures and tasks

    def next_number(self) -> int:
        """Return the next hash for a task or future."""
        self._numbers += 1
        return self._numbers

    def create_future(self) -> SimulatedFuture[Any]:
        """Return a future with a deterministic hash."""
        return new_future(self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """Return a task that its incarnation keeps alive until it is done."""
        if context is None:
            context = copy_context()
        if CURRENT not in context:
            context.run(CURRENT.set, self.whose())
        incarnation = context.get(CURRENT)
        if incarnation is not None and not incarnation.alive:
            coro.close()
            raise NodeKilled(incarnation.name)
        if name is None:
            name = f"task-{self.next_number()}"
        task: SimulatedTask[T] = SimulatedTask(
            coro, loop=self, name=name, context=context, **options
        )
        task.owner = incarnation
        tasks = self.tasks if incarnation is None else incarnation.tasks
        tasks.append(task)
        if len(tasks) & 255 == 0:
            self.forget_done(tasks)
        return task

    @staticmethod
    def forget_done(tasks: list[asyncio.Task[Any]]) -> None:
        """Release tasks that are done, which reports failures that were not awaited."""
        tasks[:] = [task for task in tasks if not task.done()]

    def set_task_factory(self, factory: Any) -> None:
        """Reject any factory but None: the order of tasks is what makes a run repeatable."""
        if factory is not None:
            raise RuntimeError("a simulation makes its own tasks; a factory would change the order")

    def get_task_factory(self) -> None:
        """Return None: there is never a factory."""
        return

    # The dead

    def refuse(self, incarnation: Incarnation) -> None:
        """Raise NodeKilled. After many refusals return instead: let that code wait for ever.

        A loop that catches everything would otherwise never give the thread back. Code that waits
        for ever is found, and named, when its node is cleared away.
        """
        self._refusals[incarnation] = refusals = self._refusals.get(incarnation, 0) + 1
        if refusals <= REFUSALS_MAX:
            raise NodeKilled(incarnation.name)

    def bury(self, incarnation: Incarnation) -> None:
        """Forget a dead incarnation that has been cleared away."""
        self._refusals.pop(incarnation, None)

    # Executor

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func` in this thread, at a later virtual time, whatever the executor is."""
        return self.blocking.submit(func, args)

    def set_default_executor(self, executor: object) -> None:
        """Do nothing: there are no threads."""

    async def shutdown_default_executor(self, *_: object) -> None:
        """Do nothing: there is no executor."""

    # Network: the methods that asyncio's own functions use

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect to a simulated node, as `asyncio.AbstractEventLoop.create_connection` does."""
        return await self._network().create_connection(*args, **kwargs)

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:
        """Listen on a simulated node, as `asyncio.AbstractEventLoop.create_server` does."""
        return await self._network().create_server(*args, **kwargs)

    async def getaddrinfo(self, host: Any, port: Any, **hints: int) -> Any:
        """Look a name up among the simulated nodes."""
        return await self._network().getaddrinfo(host, port)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        """Return the name of the node with this address."""
        return await self._network().getnameinfo(sockaddr)

    def _network(self) -> Sockets:
        if self.sockets is None:
            raise RuntimeError("this loop has no simulated network; run it in a Simulation")
        return self.sockets

    # Running

    def drive(self, until_ns: int = FOREVER_NS) -> None:
        """Run until `stop()` or until virtual time reaches `until_ns`.

        Raise Deadlock if nothing is left to do and `until_ns` was not given.
        """
        self._check_can_run()
        self.ident = get_ident()
        self._stopping = False
        self.running = True
        asyncio.events._set_running_loop(self)
        try:
            self._garbage.begin()
            with self._generators, deterministic_asyncio(self), quiet_graves(), GUARD:
                # As a node that never lived: objects that are released between two turns may have
                # finalizers.
                context_of_nobody().run(self._turn_over, until_ns)
        finally:
            self.life = None
            asyncio.events._set_running_loop(None)
            self.running = False
            self._stopping = False
            self._end = None

    def _check_can_run(self) -> None:
        if self._closed:
            raise RuntimeError("the simulated loop is closed")
        if self.running or asyncio.events._get_running_loop() is not None:
            raise RuntimeError("a loop is already running in this thread")

    def _turn_over(self, until_ns: int) -> None:
        """Run the turns. It is one function, because it runs for every event.

        Rare checks are done at `_next_stop`.
        """
        ready, timers, unmixed, checks = self._ready, self.timers, self.trace.unmixed, self.checks
        current, popleft, shuffles = CURRENT, self._ready.popleft, self._shuffle is not None
        now_ns, world, end = self.now_ns, world_context(), self._end_at(until_ns)
        while True:
            if ready:
                if shuffles:
                    self._draw_order_of_nodes()
                turn = popleft()
                if turn._cancelled:
                    continue
            else:
                when_ns, _, turn = heappop(timers)
                if turn._cancelled:
                    if turn is not end:
                        continue
                    if until_ns == FOREVER_NS:
                        raise Deadlock("nothing is left to do before the end of time")
                    self.now_ns = until_ns
                    return
                if when_ns > now_ns:
                    self.now_ns = now_ns = when_ns
            context = turn._context
            incarnation = context.get(current)
            if incarnation is None:
                number = 0
            elif incarnation.gate is not None:
                self._hold_back(turn, incarnation, incarnation.gate)
                if self._stopping:
                    return
                continue
            else:
                number = incarnation.trace_number
            self.life = incarnation
            self.events = events = self.events + 1
            unmixed += (now_ns, number)
            args = turn._args
            try:
                # A call without `*` takes a third of the time.
                context.run(turn._callback, *args) if args else context.run(turn._callback)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self._failures.in_callback(turn, error)
            if checks:
                for check in checks:
                    world.run(check)
            if events >= self._next_stop and self._must_stop():
                return

    def _end_at(self, until_ns: int) -> Turn:
        """Add the end of a drive to the timers, so that the loop need not compare with it."""
        self._end = end = Turn(lambda: None, (), world_context())
        end.cancel()  # an end that was not reached has no effect on the next drive
        heappush(self.timers, (until_ns, AFTER_ALL_OTHERS, end))
        return end

    @staticmethod
    def _hold_back(turn: Turn, incarnation: Incarnation, gate: Gate) -> None:
        if incarnation.alive:
            gate.hold(turn)
        else:
            # Here, so that the finalizers of its objects run as the dead node, too.
            turn._context.run(turn.cancel)

    def _must_stop(self) -> bool:
        """Do what is due now and then; return whether this drive ends here."""
        if self.events >= self._next_mix:
            self._next_mix = self.events + EVENTS_BETWEEN_MIXES
            self.trace.mix()
            if self.events >= self._next_check:
                self._look_around()
        self._next_stop = self._next_mix
        return self._stopping

    def _draw_order_of_nodes(self) -> None:
        """Draw which of the ready nodes runs first: they are separate machines.

        Done once for each batch of ready turns; the turns of one node keep their order.
        """
        if self._batch > 0:
            self._batch -= 1
            return
        ready = self._ready
        self._batch = len(ready) - 1
        if self._shuffle is None or self._batch == 0:
            return
        lanes: dict[Incarnation | None, list[Turn]] = {}
        for turn in ready:
            lanes.setdefault(turn._context.get(CURRENT), []).append(turn)
        if len(lanes) > 1:
            order = list(lanes.values())
            self._shuffle.shuffle(order)
            ready.clear()
            for lane in order:
                ready.extend(lane)

    def run_turn(self, turn: Turn) -> None:
        """Run one turn now, even if a gate holds it back."""
        if turn._cancelled:
            return
        self.events += 1
        context = turn._context
        around, self.life = self.life, context.get(CURRENT)
        incarnation = self.life
        number = 0 if incarnation is None else incarnation.trace_number
        self.trace.unmixed += (self.now_ns, number)
        try:
            context.run(turn._callback, *turn._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._failures.in_callback(turn, error)
        finally:
            self.life = around

    def _look_around(self) -> None:
        """Do what is due more rarely: check budget and livelock, drop garbage and old timers."""
        self._next_check = self.events + EVENTS_BETWEEN_CHECKS
        self.trace.milestones.append((self.events, self.now_ns, self.trace.digest))
        if self.events >= self._events_max:
            raise EventBudgetSpent(f"{self.events} events")
        since, times = self._still
        self._still = (self.now_ns, times + 1) if since == self.now_ns else (self.now_ns, 0)
        if self._still[1] >= CHECKS_WITHOUT_TIME:
            events = self._still[1] * EVENTS_BETWEEN_CHECKS
            raise Livelock(f"time has stood still for {events} events")
        self._garbage.collect()
        self.forget_done(self.tasks)
        self._drop_cancelled()

    def _drop_cancelled(self) -> None:
        end = self._end
        living = [entry for entry in self.timers if entry[2] is end or not entry[2]._cancelled]
        if len(living) * 2 < len(self.timers):
            self.timers[:] = living
            heapify(self.timers)

    def take_ready(self, incarnation: Incarnation) -> list[Turn]:
        """Take the ready turns of one incarnation out of the queue, in order."""
        mine = [turn for turn in self._ready if turn._context.get(CURRENT) is incarnation]
        if mine:
            others = [turn for turn in self._ready if turn._context.get(CURRENT) is not incarnation]
            self._ready.clear()
            self._ready.extend(others)
        return mine

    def run_forever(self) -> None:
        """Run until `stop()`."""
        self.drive()

    def run_until_complete(self, future: Any) -> Any:
        """Run until a coroutine or future is done, and return its result."""
        self._check_can_run()
        if asyncio.iscoroutine(future):
            future = self.create_task(future)
        future.add_done_callback(self._stop_after)
        try:
            self.drive()
        finally:
            future.remove_done_callback(self._stop_after)
        return future.result()

    def _stop_after(self, future: asyncio.Future[Any]) -> None:
        self.stop()

    def stop(self) -> None:
        """End `drive` after the running callback."""
        self._stopping = True
        self._next_stop = 0

    def is_running(self) -> bool:
        """Whether `drive` is running."""
        return self.running

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Forget everything that is scheduled."""
        if self.running:
            raise RuntimeError("cannot close a running event loop")
        self._closed = True
        self._ready.clear()
        self.timers.clear()
        self._garbage.end()

    async def shutdown_asyncgens(self) -> None:
        """Close the async generators that were left unfinished, in the order of their start."""
        await self._generators.close_all()

    # Failures and debug

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Pass an unawaited failure to the node's handler; without one it ends the run."""
        self._failures.report(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Pass the failure on to the code that runs the simulation."""
        self._failures.hand_over(context)

    def set_exception_handler(self, handler: Any) -> None:
        """Set the handler of the calling node."""
        self._failures.set_handler(handler)

    def get_exception_handler(self) -> Any:
        """Return the handler of the calling node."""
        return self._failures.handler()

    def get_debug(self) -> bool:
        """Return asyncio's debug mode; it is off unless it was set."""
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        """Set the debug mode; it only changes what asyncio's own classes check."""
        self._debug = bool(enabled)
        # C code calls it for each new future and task: implemented in C as well, it costs less.
        self.get_debug = self._debug.__bool__  # type: ignore[method-assign]
