"""One event loop on one thread for all blocking clients of a process, and how threads wait for it.

    loop = enter(tenant)              # the first tenant starts the thread
    answer = loop.call(coroutine)     # waits here
    leave(tenant)                     # the last tenant stops it

Invariants: there is at most one such thread; it runs while there is a tenant (and on, for the next
tenant, if the last one did not leave but was collected). A call that Ctrl-C ends is cancelled on
the loop before the exception is raised, and a result that came all the same is passed to `salvage`.
A call that waits when the thread stops raises LoopStopped: none hangs.

The end of the interpreter has two steps. While threads and executors still work, each tenant may
`finish` what it has accepted; threads of the program may continue meanwhile. After them, and after
the exit functions that the program registered, each tenant is closed. The thread is a daemon, so it
lives until then and does not keep the process from ending.

After a fork the child has the memory of the loop but not its thread, and no tenants. `forks`
notifies former tenants; a tenant that enters in the child gets a new loop.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from functools import partial
from queue import Empty
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import finalize, ref

from moldau.errors import MoldauError, without_frames
from moldau.runtime.forks import hear_of_forks
from moldau.runtime.log_thread import LogsHere, LogThread
from moldau.runtime.threads import REAL, Queue, ThreadLock, here

T = TypeVar("T")

_GLANCE_S: Final = 1.0
"""A signal just before a thread sleeps does not wake it: so it wakes by itself at this interval."""

_INTERRUPTS_A_SEND: Final = (
    "this waits for the client's own thread, and was called by a signal handler (or a finalizer) "
    "in the midst of a send or a read of this thread, for which that one waits: set a flag there "
    "that the program looks at, or raise an exception that ends it"
)

INTERRUPTED_S: Final = 5.0
"""The longest wait for an interrupted call, which was cancelled; a second Ctrl-C ends the wait."""


class WrongThread(MoldauError):
    """A blocking call was made on the loop's own thread, or by two threads at a time."""


class LoopStopped(MoldauError):
    """The loop ended while a call waited for it."""


class Interrupted(Exception):
    """The error of an errand that Ctrl-C ended, on the loop; the caller gets the signal itself."""


class Tenant(Protocol):
    """A user of the loop."""

    def finish(self) -> None:
        """Send what was accepted, because the program ends. More calls may follow."""

    def close(self) -> None:
        """Close the tenant, because the interpreter ends. This is the last call."""


class WeakTenant:
    """Represents a tenant without keeping it alive, and is collected together with it."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = ref(tenant)
        finalize(tenant, _forsake, self).atexit = False

    def finish(self) -> None:
        """Finish the tenant, if it still exists."""
        tenant = self._tenant()
        if tenant is not None:
            tenant.finish()

    def close(self) -> None:
        """Close the tenant, if it still exists."""
        tenant = self._tenant()
        if tenant is not None:
            tenant.close()


class Errand(Generic[T]):
    """A function that a coroutine wants to run in the thread that waits for the coroutine."""

    def __init__(self, function: Callable[[], T], answer: asyncio.Future[T]) -> None:
        self._function = function
        self._answer = answer
        self._loop = answer.get_loop()

    def run(self) -> None:
        """Run the function, in the waiting thread."""
        with self:
            self._tell(self._answer.set_result, self._function())

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Pass an exception on as the errand's result; Ctrl-C is raised here as well."""
        if error is None:
            return False
        is_answer = isinstance(error, Exception)
        if isinstance(error, StopIteration):  # a future does not take it
            error = RuntimeError("an errand raised StopIteration")
        told = error if is_answer else Interrupted("the program was interrupted")
        self._tell(self._answer.set_exception, told)
        return is_answer

    def _tell(self, settle: Callable[[Any], None], outcome: object) -> None:
        with contextlib.suppress(RuntimeError):  # closed: the errand has closed the client
            self._loop.call_soon_threadsafe(
                lambda: None if self._answer.done() else settle(outcome)
            )


Inbox = Queue["Errand[Any] | None"]


class Errands:
    """Functions that coroutines want to run in threads that wait; each is kept until a thread
    waits.

    Belongs to the loop.
    """

    def __init__(self) -> None:
        self._waiting: list[Inbox] = []
        self._left: list[Errand[Any]] = []

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of `function()` in a thread that waits now, or in the next one."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._give(Errand(function, answer))
        return await answer

    def _give(self, errand: Errand[Any]) -> None:
        if self._waiting:
            self._waiting[-1].put(errand)
        else:
            self._left.append(errand)

    def attend(self, inbox: Inbox) -> None:
        """Register a thread that waits at this inbox."""
        self._waiting.append(inbox)
        left, self._left = self._left, []
        for errand in left:
            inbox.put(errand)

    def desert(self, inbox: Inbox) -> None:
        """Remove a thread that waits no more; errands that it has not begun go to the next one."""
        if inbox in self._waiting:
            self._waiting.remove(inbox)
        with contextlib.suppress(Empty):
            while True:
                errand = inbox.get_nowait()
                if errand is not None:
                    self._give(errand)


class Deadline:
    """A time limit for several waits together."""

    def __init__(self, timeout_s: float | None) -> None:
        """`timeout_s` None means no limit."""
        self._at = None if timeout_s is None else here().monotonic() + timeout_s

    def left_s(self) -> float | None:
        """Return the remaining seconds; None without a limit."""
        return None if self._at is None else max(0.0, self._at - here().monotonic())


class Waiter:
    """One thread that waits until it is woken, once."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate: Queue[None] = here().queue()

    def wait(self, timeout_s: float | None, is_alive: Callable[[], bool]) -> bool:
        """Wait; return whether it was woken within `timeout_s`, and before `is_alive` was false."""
        deadline = Deadline(timeout_s)
        while True:
            left_s = deadline.left_s()
            with contextlib.suppress(Empty):
                self._gate.get(timeout=_GLANCE_S if left_s is None else min(left_s, _GLANCE_S))
                return True
            if (left_s is not None and left_s <= _GLANCE_S) or not is_alive():
                return False

    def wake(self) -> None:
        """Wake the thread; any thread may call this, once."""
        self._gate.put(None)


class LoopThread:
    """The loop's thread; created by `enter`."""

    def __init__(self) -> None:
        threads = here()
        self._process = threads.once(_Process)
        self._host = threads.loop_host()
        self.runtime, self.loop, self._ident = self._host.runtime, self._host.loop, self._host.ident
        self.log = LogsHere() if threads.is_simulated else LogThread(self._ident)
        self._inboxes: set[Inbox] = set()
        self._is_stopped = False

    def call(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        errands: Errands | None = None,
        salvage: Callable[[T], None] | None = None,
    ) -> T:
        """Return the coroutine's result. `errands` run here during the wait. If the wait is
        interrupted, `salvage` gets a result that came all the same, on the loop."""
        try:
            self.check_may_wait()
        except WrongThread:
            coroutine.close()
            raise
        call = _Call(self, coroutine, errands)
        self._inboxes.add(call.inbox)
        has_ended = False
        try:
            if not self.soon(call.begin):
                coroutine.close()
                raise LoopStopped("the client was closed")
            call.wait()
            result = call.result()
            has_ended = True
            return result
        finally:
            if not has_ended:
                call.abandon(salvage)
            self._inboxes.discard(call.inbox)

    def soon(self, function: Callable[[], object]) -> bool:
        """Run a function on the loop. Return whether the loop still exists."""
        if self._is_stopped or not self._host.is_alive():
            return False
        try:
            self.loop.call_soon_threadsafe(function)
        except RuntimeError:
            return False  # closed meanwhile
        return True

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop, and return a future instead of waiting."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def begin() -> None:
            task = self.runtime.spawn(coroutine, name="for a thread", reported=False)
            task.add_done_callback(partial(_settle, future))

        if not self.soon(begin):
            coroutine.close()
            future.set_exception(LoopStopped("the client was closed"))
        return future

    @property
    def is_here(self) -> bool:
        """Whether this code runs on the loop's thread."""
        return threading.get_ident() == self._ident

    def is_alive(self) -> bool:
        """Whether the thread runs. A callback that raises SystemExit ends it, like any loop."""
        return self._host.is_alive()

    def check_may_wait(self) -> None:
        """Raise WrongThread on the loop's own thread, which would wait for itself. Also raise it if
        this thread has a lock that the loop waits for, as in a signal handler that interrupted a
        send."""
        if any(map(_is_held_here, list(self._process.shared_locks.values()))):
            raise WrongThread(_INTERRUPTS_A_SEND)
        if self.is_here:
            raise WrongThread(
                "this waits for the client's own thread, which is the one that runs this callback; "
                "do it in a thread of yours"
            )

    def stop(self) -> None:
        """End the loop and its thread. Calls that still wait fail."""
        self._is_stopped = True
        self._host.close()
        self.log.stop()
        for inbox in tuple(self._inboxes):
            inbox.put(None)


class _Call(Generic[T]):
    """One thread that waits for one coroutine."""

    def __init__(
        self, thread: LoopThread, coroutine: Coroutine[Any, Any, T], errands: Errands | None
    ) -> None:
        self._thread = thread
        self.coroutine = coroutine
        self._errands = errands
        self.inbox: Inbox = here().queue()
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        """Start the coroutine, on the loop."""
        if self._errands is not None:
            self._errands.attend(self.inbox)
        self._task = self._thread.runtime.spawn(
            self.coroutine, name="a blocking call", reported=False
        )
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[T]) -> None:
        if self._errands is not None:
            self._errands.desert(self.inbox)
        self.inbox.put(None)

    def wait(self) -> None:
        """Run errands until the coroutine has ended, in the thread."""
        while (errand := self._next()) is not None:
            errand.run()

    def result(self) -> T:
        """Return the coroutine's result. Raise LoopStopped if it was not run to its end."""
        task = self._task
        if task is None or not task.done() or task.cancelled():
            if task is None:
                self.coroutine.close()
            raise LoopStopped("the client was closed")
        return task.result()

    def _next(self) -> Errand[Any] | None:
        while True:
            with contextlib.suppress(Empty):
                return self.inbox.get(timeout=_GLANCE_S)
            if not self._thread.is_alive():
                return None

    def abandon(self, salvage: Callable[[T], None] | None) -> None:
        """End the coroutine, in a thread that raises an exception: the coroutine's, or Ctrl-C."""
        if self._task is not None and self._task.done():
            if salvage is not None and _has_result(self._task):
                self._thread.soon(lambda: self._rescue(salvage))
            return
        if not self._thread.soon(lambda: self._cancel(salvage)):
            return
        with contextlib.suppress(Empty):
            while self.inbox.get(timeout=INTERRUPTED_S) is not None:
                pass  # an errand that came too late; `_cancel` has passed on the others

    def _cancel(self, salvage: Callable[[T], None] | None) -> None:
        if self._errands is not None:
            self._errands.desert(self.inbox)
        if self._task is None:  # interrupted before it was started
            self.coroutine.close()
            self.inbox.put(None)
            return
        if salvage is not None:
            self._task.add_done_callback(lambda _: self._rescue(salvage))
        self._task.cancel()

    def _rescue(self, salvage: Callable[[T], None]) -> None:
        assert self._task is not None
        if _has_result(self._task):
            salvage(self._task.result())


def _settle(future: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        future.set_exception(LoopStopped("the client was closed before it was done"))
        return
    error = task.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _has_result(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None


class _ToldLater:
    """Stores an exception, to be raised later."""

    def __init__(self) -> None:
        self._error: BaseException | None = None

    @property
    def is_interrupt(self) -> bool:
        """Whether the stored exception is an interrupt such as Ctrl-C, and not an error."""
        return self._error is not None and not isinstance(self._error, Exception)

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._error = without_frames(error)
        return True

    def tell(self) -> None:
        """Raise the stored exception, if there is one."""
        error, self._error = self._error, None
        if error is not None:
            raise error


class _Process:
    """The loop's thread of this process, if it has one, and its tenants."""

    def __init__(self) -> None:
        self.lock = here().lock()
        self.thread: LoopThread | None = None
        self.tenants: dict[Tenant, None] = {}
        self.shared_locks: dict[int, ref[ThreadLock]] = {}
        """The locks that the loop takes as well."""
        self.left_behind: list[LoopThread] = []
        self.is_watched = here().is_simulated
        """Whether its end is registered; the end of a simulated node is not the interpreter's."""
        self.is_ending = False
        self.told_later = _ToldLater()
        hear_of_forks(self)

    def watch(self) -> None:
        """Register for the end of the interpreter; once."""
        if self.is_watched:
            return
        self.is_watched = True
        atexit.register(self.close_all)
        # Executors reject work as soon as the main thread has ended, which is before exit functions
        # run; a first connection may need one to look a name up.
        early = getattr(threading, "_register_atexit", atexit.register)
        try:
            early(self.finish_all)
        except RuntimeError:
            self.is_ending = True

    def finish_all(self) -> None:
        """Finish all tenants, while threads still work. Python must wait for those despite an
        error, so the error is raised at the end."""
        self.is_ending = True
        with self.told_later:
            _each(self.tenants, lambda tenant: tenant.finish())

    def close_all(self) -> None:
        """Close all tenants, at the end of the interpreter."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.told_later.tell)
            if not self.told_later.is_interrupt:
                _each(self.tenants, lambda tenant: tenant.close())

    def forked(self) -> None:
        """Reset the state in a child. The loop is not closed: it shares the parent's
        descriptors."""
        self.lock = here().lock()
        self.tenants = {}
        self.shared_locks = {}
        thread, self.thread = self.thread, None
        if thread is not None:
            thread.log.forget()
            self.left_behind.append(thread)


def _each(tenants: Iterable[Tenant], what: Callable[[Tenant], None]) -> None:
    """Call `what` for all tenants, even if one fails; then raise the first failure."""
    with contextlib.ExitStack() as stack:
        for tenant in reversed(list(tenants)):
            stack.callback(what, tenant)


_PROCESS: Final = REAL.once(_Process)


def enter(tenant: Tenant) -> LoopThread:
    """Register a tenant and return the loop's thread, which runs until the tenant leaves."""
    process = here().once(_Process)
    with process.lock:
        process.watch()
        if process.thread is None:
            process.thread = LoopThread()
        process.tenants[tenant] = None
        return process.thread


def leave(tenant: Tenant) -> None:
    """Remove a tenant; a second call does nothing."""
    process = here().once(_Process)
    current = process.thread
    if current is not None:
        current.log.drain()
    thread = None
    with process.lock:
        was_in = tenant in process.tenants
        process.tenants.pop(tenant, None)
        # Soon there will be no executors to stop it with; it ends with the process.
        if was_in and not process.tenants and not process.is_ending:
            thread, process.thread = process.thread, None
    if thread is not None:
        thread.stop()


def _forsake(tenant: WeakTenant) -> None:
    """Remove a collected tenant. The collector calls this in any thread, with any locks held: so it
    takes no lock and waits for nothing."""
    _PROCESS.tenants.pop(tenant, None)


def check_may_wait() -> None:
    """Raise WrongThread if this thread may not wait for the loop, as on the loop's own thread."""
    thread = here().once(_Process).thread
    if thread is not None:
        thread.check_may_wait()


def this_thread() -> object:
    """Return the current thread, for comparisons."""
    return threading.current_thread()


def new_lock() -> ThreadLock:
    """Return a lock that its holder may take again."""
    return here().lock()


def new_shared_lock() -> ThreadLock:
    """Return a lock that the loop takes as well: its holder may not wait for the loop."""
    threads = here()
    lock, locks = threads.lock(), threads.once(_Process).shared_locks
    key = id(lock)
    locks[key] = ref(lock)
    finalize(lock, locks.pop, key, None).atexit = False
    return lock


def _is_held_here(known: ref[ThreadLock]) -> bool:
    """Whether the current thread holds the lock."""
    lock = known()
    if lock is None:
        return False
    try:
        threading.Condition(lock).notify(0)  # type: ignore[arg-type]
    except RuntimeError:  # it is not held here
        return False
    return True
