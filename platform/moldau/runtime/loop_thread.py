"""One event loop on one thread for all blocking clients of a process, and how threads wait for it.

    loop = enter(tenant)              # the first one in starts the thread
    answer = loop.call(coroutine)     # waits here
    leave(tenant)                     # the last one out stops it

Invariants: there is at most one such thread; it runs while there is a tenant (and on, for the next
tenant, when the last one did not leave but was collected). A call that ends by
Ctrl-C is cancelled on the loop before the exception goes on, and a result that came all the same
is handed to `salvage`. A call that waits when the thread stops raises LoopStopped: none hangs.

The end of the interpreter comes in two steps. While threads and executors still work, each tenant
may `finish` what it has accepted; threads of the program may go on meanwhile. After them, and after
the exit functions that the program registered, each is closed. The thread is a daemon, so it lives
until then and does not keep the process from ending.

After a fork the child has the memory of the loop but not its thread, and no tenants. Former tenants
are told by `forks`; a tenant that enters in the child gets a loop of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import finalize, ref

from moldau.errors import MoldauError
from moldau.runtime.forks import hear_of_forks
from moldau.runtime.interface import Runtime
from moldau.runtime.log_thread import LogThread
from moldau.runtime.threaded import ThreadedRuntime

T = TypeVar("T")

_GLANCE_S: Final = 1.0
"""A signal that comes just when a thread goes to sleep does not wake it: it looks now and then."""

_INTERRUPTS_A_SEND: Final = (
    "this waits for the client's own thread, and was called by a signal handler (or a finalizer) "
    "in the midst of a send or a read of this thread, for which that one waits: set a flag there "
    "that the program looks at, or raise an exception that ends it"
)

INTERRUPTED_S: Final = 5.0
"""So long an interrupted call is waited for: it is told to end, and a second Ctrl-C ends this."""


class WrongThread(MoldauError):
    """A blocking call was made on the loop's own thread, or by two threads at a time."""


class LoopStopped(MoldauError):
    """The loop ended while a call waited for it."""


class Interrupted(Exception):
    """What the loop sees of an errand that Ctrl-C ended: the signal itself is the caller's."""


class Tenant(Protocol):
    """A user of the loop."""

    def finish(self) -> None:
        """The program ends: what was accepted goes out. More may come."""

    def close(self) -> None:
        """The interpreter ends: the last call."""


class WeakTenant:
    """Stands for a tenant without keeping it alive: is collected together with it."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = ref(tenant)
        finalize(tenant, _forsake, self).atexit = False

    def finish(self) -> None:
        """If it still is."""
        tenant = self._tenant()
        if tenant is not None:
            tenant.finish()

    def close(self) -> None:
        """If it still is."""
        tenant = self._tenant()
        if tenant is not None:
            tenant.close()


class Errand(Generic[T]):
    """Something that a coroutine wants done by the thread that waits for it."""

    def __init__(self, function: Callable[[], T], answer: asyncio.Future[T]) -> None:
        self._function = function
        self._answer = answer
        self._loop = answer.get_loop()

    def run(self) -> None:
        """In the thread that waits."""
        with self:
            self._tell(self._answer.set_result, self._function())

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """An exception is the errand's answer; Ctrl-C goes on as well."""
        if error is None:
            return False
        is_answer = isinstance(error, Exception)
        if isinstance(error, StopIteration):  # a future does not take it
            error = RuntimeError("an errand raised StopIteration")
        told = error if is_answer else Interrupted("the program was interrupted")
        self._tell(self._answer.set_exception, told)
        return is_answer

    def _tell(self, settle: Callable[[Any], None], outcome: object) -> None:
        with contextlib.suppress(RuntimeError):  # it is closed: the errand has closed the client
            self._loop.call_soon_threadsafe(
                lambda: None if self._answer.done() else settle(outcome)
            )


Inbox = SimpleQueue["Errand[Any] | None"]


class Errands:
    """Work that coroutines leave to the threads waiting in these calls; kept until a thread waits.

    Belongs to the loop.
    """

    def __init__(self) -> None:
        self._waiting: list[Inbox] = []
        self._left: list[Errand[Any]] = []

    async def run(self, function: Callable[[], T]) -> T:
        """What `function()` gives in a thread that waits now, or in the next one that does."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._give(Errand(function, answer))
        return await answer

    def _give(self, errand: Errand[Any]) -> None:
        if self._waiting:
            self._waiting[-1].put(errand)
        else:
            self._left.append(errand)

    def attend(self, inbox: Inbox) -> None:
        """A thread waits at this inbox."""
        self._waiting.append(inbox)
        left, self._left = self._left, []
        for errand in left:
            inbox.put(errand)

    def desert(self, inbox: Inbox) -> None:
        """It does not any more; what it has not begun is for the next one."""
        if inbox in self._waiting:
            self._waiting.remove(inbox)
        with contextlib.suppress(Empty):
            while True:
                errand = inbox.get_nowait()
                if errand is not None:
                    self._give(errand)


class Deadline:
    """A moment by which several waits have to be over."""

    def __init__(self, timeout_s: float | None) -> None:
        """None: there is none."""
        self._at = None if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float | None:
        """How long it is till then."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())


class Waiter:
    """One thread that waits until it is woken, once."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self, timeout_s: float | None, is_alive: Callable[[], bool]) -> bool:
        """Whether it was woken within `timeout_s` and before `is_alive` became false."""
        deadline = Deadline(timeout_s)
        while True:
            left_s = deadline.left_s()
            if self._gate.acquire(timeout=_GLANCE_S if left_s is None else min(left_s, _GLANCE_S)):
                return True
            if (left_s is not None and left_s <= _GLANCE_S) or not is_alive():
                return False

    def wake(self) -> None:
        """From any thread; once."""
        self._gate.release()


class LoopThread:
    """The thread. Made by `enter`."""

    def __init__(self) -> None:
        self._threaded = ThreadedRuntime("moldau-clients")
        self._threaded.start()
        self.runtime, self.loop, self._thread = self._threaded.run(_where)
        self._ident = self._thread.ident
        self.log = LogThread(self._ident)
        self._inboxes: set[Inbox] = set()
        self._is_stopped = False

    def call(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        errands: Errands | None = None,
        salvage: Callable[[T], None] | None = None,
    ) -> T:
        """What the coroutine returns, waited for. `errands` are run here meanwhile. If this is
        interrupted, `salvage` gets, on the loop, what it returned nevertheless."""
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
        """Runs this on the loop; whether there is one still."""
        if self._is_stopped or not self._thread.is_alive():
            return False
        try:
            self.loop.call_soon_threadsafe(function)
        except RuntimeError:
            return False  # closed since
        return True

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """The same without waiting."""
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
        """Whether it runs. A callback that raises SystemExit ends it, as it ends any event loop."""
        return self._thread.is_alive()

    def check_may_wait(self) -> None:
        """WrongThread on the loop's own thread, which would wait for itself; and where this one
        holds what the loop waits for, as in a signal handler that has interrupted a send."""
        if any(map(_is_held_here, list(_PROCESS.shared_locks.values()))):
            raise WrongThread(_INTERRUPTS_A_SEND)
        if self.is_here:
            raise WrongThread(
                "this waits for the client's own thread, which is the one that runs this callback; "
                "do it in a thread of yours"
            )

    def stop(self) -> None:
        """Ends the loop and its thread. Calls that still wait fail."""
        self._is_stopped = True
        self._threaded.close()
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
        self.inbox: Inbox = SimpleQueue()
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        """On the loop."""
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
        """In the thread: runs errands until the coroutine has ended."""
        while (errand := self._next()) is not None:
            errand.run()

    def result(self) -> T:
        """What the coroutine returned."""
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
        """In the thread, which goes on with an exception: the coroutine's, or Ctrl-C."""
        if self._task is not None and self._task.done():
            if salvage is not None and _has_result(self._task):
                self._thread.soon(lambda: self._rescue(salvage))
            return
        if not self._thread.soon(lambda: self._cancel(salvage)):
            return
        with contextlib.suppress(Empty):
            while self.inbox.get(timeout=INTERRUPTED_S) is not None:
                pass  # an errand that came too late; `_cancel` has seen to the others

    def _cancel(self, salvage: Callable[[T], None] | None) -> None:
        if self._errands is not None:
            self._errands.desert(self.inbox)
        if self._task is None:  # interrupted before it was handed over
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


async def _where(runtime: Runtime) -> tuple[Runtime, asyncio.AbstractEventLoop, threading.Thread]:
    return runtime, asyncio.get_running_loop(), threading.current_thread()


class _ToldLater:
    """Keeps an exception for later."""

    def __init__(self) -> None:
        self._error: BaseException | None = None

    @property
    def is_interrupt(self) -> bool:
        """Whether it ends by an interrupt such as Ctrl-C, and not by an error."""
        return self._error is not None and not isinstance(self._error, Exception)

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._error = error
        return True

    def tell(self) -> None:
        """Raises it."""
        error, self._error = self._error, None
        if error is not None:
            raise error


class _Process:
    """The loop's thread of this process, if it has one, and its tenants."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: LoopThread | None = None
        self.tenants: dict[Tenant, None] = {}
        self.shared_locks: dict[int, ref[threading.RLock]] = {}
        """Those that the loop takes too."""
        self.left_behind: list[LoopThread] = []
        self.is_watched = False
        self.is_ending = False
        self.told_later = _ToldLater()
        hear_of_forks(self)

    def watch(self) -> None:
        """Once: hears of the end."""
        if self.is_watched:
            return
        self.is_watched = True
        atexit.register(self.close_all)
        # Executors refuse work as soon as the main thread is done, which is before exit functions
        # run; a first connection may need one to look a name up.
        early = getattr(threading, "_register_atexit", atexit.register)
        try:
            early(self.finish_all)
        except RuntimeError:
            self.is_ending = True

    def finish_all(self) -> None:
        """While there are threads. What fails must not keep Python from waiting for them: it is
        raised at the end."""
        self.is_ending = True
        with self.told_later:
            _each(self.tenants, lambda tenant: tenant.finish())

    def close_all(self) -> None:
        """At the end."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.told_later.tell)
            if not self.told_later.is_interrupt:
                _each(self.tenants, lambda tenant: tenant.close())

    def forked(self) -> None:
        """In the child. The loop is not closed: its descriptors are the parent's as well."""
        self.lock = threading.Lock()
        self.tenants = {}
        self.shared_locks = {}
        thread, self.thread = self.thread, None
        if thread is not None:
            thread.log.forget()
            self.left_behind.append(thread)


def _each(tenants: Iterable[Tenant], what: Callable[[Tenant], None]) -> None:
    """For all of them, also behind one that fails; then the first failure."""
    with contextlib.ExitStack() as stack:
        for tenant in reversed(list(tenants)):
            stack.callback(what, tenant)


_PROCESS: Final = _Process()


def enter(tenant: Tenant) -> LoopThread:
    """The loop, for as long as the tenant does not leave."""
    with _PROCESS.lock:
        _PROCESS.watch()
        if _PROCESS.thread is None:
            _PROCESS.thread = LoopThread()
        _PROCESS.tenants[tenant] = None
        return _PROCESS.thread


def leave(tenant: Tenant) -> None:
    """It is not needed any more; a second call does nothing."""
    current = _PROCESS.thread
    if current is not None:
        current.log.drain()
    thread = None
    with _PROCESS.lock:
        was_in = tenant in _PROCESS.tenants
        _PROCESS.tenants.pop(tenant, None)
        # Soon there will be no executors left to stop it with; it goes with the process.
        if was_in and not _PROCESS.tenants and not _PROCESS.is_ending:
            thread, _PROCESS.thread = _PROCESS.thread, None
    if thread is not None:
        thread.stop()


def _forsake(tenant: WeakTenant) -> None:
    """The collector calls this, in whatever thread it runs and whatever that thread holds: so it
    takes no lock and waits for nothing."""
    _PROCESS.tenants.pop(tenant, None)


def check_may_wait() -> None:
    """WrongThread on the loop's own thread: it would wait for itself."""
    thread = _PROCESS.thread
    if thread is not None:
        thread.check_may_wait()


def this_thread() -> object:
    """The thread that asks, to be compared with another."""
    return threading.current_thread()


def new_lock() -> threading.RLock:
    """A lock that its holder may take again."""
    return threading.RLock()


def new_shared_lock() -> threading.RLock:
    """As `new_lock`, for a lock that the loop takes too: its holder may not wait for the loop."""
    lock = threading.RLock()
    key = id(lock)
    _PROCESS.shared_locks[key] = ref(lock)
    finalize(lock, _PROCESS.shared_locks.pop, key, None).atexit = False
    return lock


def _is_held_here(known: ref[threading.RLock]) -> bool:
    """Whether the thread that asks holds it."""
    lock = known()
    if lock is None:
        return False
    try:
        threading.Condition(lock).notify(0)
    except RuntimeError:  # as it is not held here
        return False
    return True
