"""The common part of the blocking clients: how they start and close, and how they wait.

A blocking client is the asyncio client of the same name on the process's one loop thread
(`moldau.runtime.loop_thread`). Its methods have the same names and parameters; each passes its call
to the loop and waits for the result.

Invariants: a client works only in the process that started it, and raises an error elsewhere. A
call that Ctrl-C interrupts ends on the loop too, and the client stays usable. Accepted records are
delivered, or their failure is reported, before the interpreter exits. A client is closed when
`close` returns, even if another thread closes it. A failed close leaves nothing open.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from moldau.client.base.given import settings_in
from moldau.client.base.lifecycle import not_started
from moldau.client.base.notices import not_hiding
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.lifetime import closed, wrong_process
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

    from moldau.client.base.configuration import Configuration
    from moldau.runtime import Runtime

T = TypeVar("T")

_LATE: Final = (
    "moldau.protocol.codec",
    "moldau.protocol.constructor",
    "moldau.client.serdes.resolve",
)
"""What a client imports when it starts, or with its first request: not on the loop, while another
thread may fork."""


class ClientState(Enum):
    """NEW -> OPEN -> CLOSING -> CLOSED; in a child process FORKED, from OPEN and CLOSING.

    While it is CLOSING it can still be called: a listener that the close calls may commit.
    """

    NEW = "new"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FORKED = "forked"


class BlockingClient:
    """A client for threads. `with` starts and closes it."""

    kind: ClassVar[str]
    """The client's name in errors."""
    is_shareable: ClassVar[bool] = True
    """Whether several threads may use it at the same time."""

    def __init_subclass__(cls, twin_of: type[object] | None = None, **given: Any) -> None:
        """Document the methods with what the asyncio client `twin_of` says of those of the name."""
        super().__init_subclass__(**given)
        for name, mine in vars(cls).items():
            if twin_of is not None and mine.__doc__ is None and not name.startswith("_"):
                mine.__doc__ = getattr(twin_of, name).__doc__

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
        """Held by the closing thread until the client is closed."""
        hear_of_forks(self)

    @property
    def configuration(self) -> Configuration[Self]:
        """The arguments it was made with: pickle them, and make equal clients from them."""
        from moldau.client.base.configuration import Configuration

        return Configuration(type(self), *self._given)

    @classmethod
    def from_config(cls, configuration: Configuration[Self]) -> Self:
        """Return a client of this configuration, not started yet."""
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
        """Connect. Raise KafkaError if no bootstrap server is reachable. Do nothing if started."""
        if self._state is ClientState.NEW:
            check_may_wait()  # before the lock: its holder may be waiting for this thread
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
        """Make the asyncio client again and start it, on the loop."""
        raise AssertionError("each client has its own")

    def _end(
        self,
        coroutine: Coroutine[Any, Any, None],
        errands: Errands | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Close with this coroutine. If another thread is closing already, run it there too, as it
        may be less patient, and wait if `waits` until the client is closed. Not on the loop."""
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
                with suppress(LoopStopped):  # the other thread has closed it
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
        """Drop what a failed close has left, and raise the close's own error in any case."""
        if thread.is_alive():
            with not_hiding(kind, type(self).__name__.lower()):
                thread.call(self._drop(), errands=errands)

    async def _drop(self) -> None:
        """After a failed close, end on the loop the connections and all background work."""
        raise AssertionError("each client has its own")

    @property
    def is_forked(self) -> bool:
        """Whether it belongs to another process."""
        return self._state is ClientState.FORKED

    @property
    def is_over(self) -> bool:
        """Whether it is closed, being closed, or belongs to another process."""
        return self._state not in (ClientState.NEW, ClientState.OPEN)

    # Waiting

    def _check_may_wait(self) -> None:
        """Raise WrongThread on the loop's own thread, WrongProcess after a fork."""
        self._check_may_close()
        if self.is_forked:
            raise self._refusal()

    def _check_may_close(self) -> None:
        thread = self._thread  # another thread's close resets it
        if thread is not None:
            thread.check_may_wait()

    def _is_served(self) -> bool:
        """Whether its loop thread is running."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _call(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        errands: Errands | None = None,
        salvage: Callable[[T], None] | None = None,
    ) -> T:
        """Run the coroutine on the loop, wait, and return its result."""
        thread = self._thread
        if thread is None:
            coroutine.close()
            raise self._refusal()
        try:
            return thread.call(coroutine, errands=errands, salvage=salvage)
        except LoopStopped:
            raise self._refusal() from None

    def _spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run the coroutine on the loop, without waiting."""
        thread = self._thread
        if thread is None:
            coroutine.close()
            raise self._refusal()
        return thread.spawn(coroutine)

    def _run(self, function: Callable[[], T]) -> T:
        """Call the function on the loop, and return its result."""
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
            return wrong_process(
                self.kind, "make another one of its `configuration` after the fork"
            )
        return closed(self.kind)

    # Called by the loop thread

    def _as_tenant(self) -> Tenant:
        """Return the object that needs the loop thread: always the same one."""
        return self

    def finish(self) -> None:
        """Prepare for the end of the program."""

    def close(self) -> None:
        """Close the connections. May be called again, also by several threads at once."""
        raise AssertionError("each client has its own")

    def forked(self) -> None:
        """Adapt to a forked process: other threads may have held the locks at the fork."""
        self._lock = new_lock()
        self._closing = new_lock()
        self._thread = None
        if self._state in (ClientState.OPEN, ClientState.CLOSING):
            self._state = ClientState.FORKED


async def _calling(function: Callable[[], T]) -> T:
    return function()
