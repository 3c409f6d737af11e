"""What the blocking clients have in common: how they begin and end, and how they wait.

A blocking client is the asyncio client of the same name on the process's one loop thread
(`moldau.runtime.loop_thread`). Its methods have the same names and parameters; each hands its call
over and waits for what comes of it.

Invariants: a client is used in the process that started it and nowhere else, and says so; a call
that Ctrl-C interrupts is ended on the loop too, and the client goes on; what was accepted is
delivered, or its failure is told, before the interpreter ends; a client is closed when `close`
returns, also where another thread closes it; a close that fails leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from moldau.client.settings.given import settings_in
from moldau.client.settings.lifecycle import not_started
from moldau.client.settings.notices import not_hiding
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.lifetime import closed
from moldau.runtime.forks import hear_of_forks, import_whole
from moldau.runtime.loop_thread import (
    Errands,
    LoopStopped,
    LoopThread,
    Tenant,
    check_may_wait,
    enter,
    leave,
    new_lock,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from moldau.client.sync.configuration import Configuration
    from moldau.runtime import Runtime

T = TypeVar("T")

_LATE: Final = (
    "moldau.protocol.codec",
    "moldau.protocol.constructor",
    "moldau.client.serdes.resolve",
)
"""What a client imports when it begins, or with its first request: not on the loop, while another
thread may fork."""


class WrongProcess(MoldauError):
    """A client was used in a process that was forked from the one that had started it."""


class ClientState(Enum):
    """NEW -> OPEN -> CLOSING -> CLOSED; and in a child process FORKED, from OPEN and CLOSING.

    While it is closing it can still be called: a listener that hears of it may commit.
    """

    NEW = "new"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FORKED = "forked"


class BlockingClient:
    """A client for threads. `with` starts and closes it."""

    kind: ClassVar[str]
    """What errors call it."""
    is_shareable: ClassVar[bool] = True
    """Whether several threads may use one at a time."""

    def __init__(
        self, settings: Mapping[str, object] | None, options: Mapping[str, object]
    ) -> None:
        self._given: tuple[dict[str, object], dict[str, Any]] = (
            dict(settings_in(settings)),
            dict(options),
        )
        self._state = ClientState.NEW
        self._thread: LoopThread | None = None
        self._lock = new_lock()
        self._closing = new_lock()
        """Held by the thread that closes it, until it is closed."""
        hear_of_forks(self)

    @property
    def configuration(self) -> Configuration[Self]:
        """What it was made with: to be pickled, and to make others like it."""
        from moldau.client.sync.configuration import Configuration

        return Configuration(type(self), *self._given)

    @classmethod
    def from_config(cls, configuration: Configuration[Self]) -> Self:
        """A client of this configuration, not started yet."""
        return cls(configuration.settings, **configuration.options)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            f"a {self.kind} has connections and cannot be pickled: pickle its `configuration`, and "
            "make another one of it where it is used"
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Connects; KafkaError when no bootstrap server can be reached. Does nothing when it is
        started."""
        if self._state is ClientState.NEW:
            check_may_wait()  # before the lock, which a thread may hold that waits for this one
        with self._lock:
            if self._state is ClientState.OPEN:
                return
            if self._state is not ClientState.NEW:
                raise self._refusal()
            for name in _LATE:
                import_whole(name)
            thread = enter(self._as_tenant())
            try:
                thread.call(self._begin(thread.runtime))
                self._thread = thread
                self._state = ClientState.OPEN
            finally:
                if self._state is not ClientState.OPEN:
                    leave(self._as_tenant())

    async def _begin(self, runtime: Runtime) -> None:
        """On the loop: makes the asyncio client anew and starts it."""
        raise AssertionError("each client has its own")

    def _end(
        self,
        coroutine: Coroutine[Any, Any, None],
        errands: Errands | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Closes by this. Where another thread does so already, asks for the same by this, which
        may be less patient, and `waits` until it is closed. Not on the loop's thread."""
        with ExitStack() as until_closed:
            with self._lock:
                state, thread = self._state, self._thread
                if state is ClientState.NEW:
                    self._state = ClientState.CLOSED
                elif state is ClientState.OPEN:
                    self._state = ClientState.CLOSING
                    until_closed.enter_context(self._closing)
            if thread is not None and state is ClientState.OPEN:
                self._close_by(thread, coroutine, errands)
                return
            if thread is not None and state is ClientState.CLOSING:
                with suppress(LoopStopped):  # the other one is done
                    thread.call(coroutine, errands=errands)
            else:
                coroutine.close()
            if state is ClientState.CLOSING and waits:
                until_closed.enter_context(self._closing)

    def _close_by(
        self, thread: LoopThread, coroutine: Coroutine[Any, Any, None], errands: Errands | None
    ) -> None:
        try:
            with ExitStack() as unless_closed:
                unless_closed.push(partial(self._drop_by, thread, errands))
                thread.call(coroutine, errands=errands)
                unless_closed.pop_all()
        finally:
            self._thread = None
            try:
                leave(self._as_tenant())
            finally:
                self._state = ClientState.CLOSED

    def _drop_by(
        self,
        thread: LoopThread,
        errands: Errands | None,
        kind: type[BaseException] | None,
        *_: object,
    ) -> None:
        """What has cut the close off is raised, whatever listeners do at the end."""
        if thread.is_alive():
            with not_hiding(kind, type(self).__name__.lower()):
                thread.call(self._drop(), errands=errands)

    async def _drop(self) -> None:
        """On the loop, after a close that failed: ends the connections, if that has not, and what
        would go on by itself."""
        raise AssertionError("each client has its own")

    @property
    def is_forked(self) -> bool:
        """Whether it is another process's."""
        return self._state is ClientState.FORKED

    @property
    def is_over(self) -> bool:
        """Whether it is closed or being closed, or another process's."""
        return self._state not in (ClientState.NEW, ClientState.OPEN)

    # Waiting

    def _check_may_wait(self) -> None:
        """WrongThread on the loop's own thread; WrongProcess after a fork."""
        self._check_may_close()
        if self.is_forked:
            raise self._refusal()

    def _check_may_close(self) -> None:
        thread = self._thread  # which another thread that closes it takes away
        if thread is not None:
            thread.check_may_wait()

    def _is_served(self) -> bool:
        """Whether there is a thread that works for it."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _call(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        errands: Errands | None = None,
        salvage: Callable[[T], None] | None = None,
    ) -> T:
        """What it returns, waited for."""
        thread = self._thread
        if thread is None:
            coroutine.close()
            raise self._refusal()
        try:
            return thread.call(coroutine, errands=errands, salvage=salvage)
        except LoopStopped:
            raise self._refusal() from None

    def _spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """The same without waiting."""
        thread = self._thread
        if thread is None:
            coroutine.close()
            raise self._refusal()
        return thread.spawn(coroutine)

    def _run(self, function: Callable[[], T]) -> T:
        """What this gives on the loop."""
        return self._call(_calling(function))

    def _refusal(self) -> Exception:
        if self._state is ClientState.NEW:
            return not_started(self.kind, is_blocking=True)
        thread = self._thread
        if thread is not None and not thread.is_alive():
            return KafkaError(
                ErrorCode.NETWORK_EXCEPTION,
                f"the {self.kind}'s thread has ended: a callback on it raised SystemExit",
            )
        if self._state is ClientState.FORKED:
            return WrongProcess(
                f"this process was forked from the one that started the {self.kind}, whose thread "
                "and connections are not here: make another one of its `configuration` after the "
                "fork"
            )
        return closed(self.kind)

    # What the loop's thread wants of its tenants

    def _as_tenant(self) -> Tenant:
        """What needs the thread: always the same object."""
        return self

    def finish(self) -> None:
        """The program ends."""

    def close(self) -> None:
        """Closes its connections. May be called again, also by several threads at once."""
        raise AssertionError("each client has its own")

    def forked(self) -> None:
        """This is another process. Other threads may have held the locks."""
        self._lock = new_lock()
        self._closing = new_lock()
        self._thread = None
        if self._state in (ClientState.OPEN, ClientState.CLOSING):
            self._state = ClientState.FORKED


async def _calling(function: Callable[[], T]) -> T:
    return function()
