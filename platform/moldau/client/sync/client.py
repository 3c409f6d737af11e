"""What the blocking clients have in common: how they begin and end, and how they wait.

A blocking client is the asyncio client of the same name on the process's one loop thread
(`moldau.runtime.loop_thread`). Its methods have the same names and parameters; each hands its call
over and waits for what comes of it.

Invariants: a client is used in the process that started it and nowhere else, and says so; a call
that Ctrl-C interrupts is ended on the loop too, and the client goes on; what was accepted is
delivered, or its failure is told, before the interpreter ends.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from moldau.client.common_settings import settings_in
from moldau.client.world import closed, not_started
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
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

_CODECS: Final = "moldau.protocol.codec"
"""What the first request imports: not on the loop, while another thread may fork."""


class WrongProcess(MoldauError):
    """A client was used in a process that was forked from the one that had started it."""


class State(Enum):
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
        self._state = State.NEW
        self._thread: LoopThread | None = None
        self._lock = new_lock()
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
        if self._state is State.NEW:
            check_may_wait()  # before the lock, which a thread may hold that waits for this one
        with self._lock:
            if self._state is State.OPEN:
                return
            if self._state is not State.NEW:
                raise self._refusal()
            import_whole(_CODECS)
            thread = enter(self._as_tenant())
            try:
                thread.call(self._begin(thread.runtime))
                self._thread = thread
                self._state = State.OPEN
            finally:
                if self._state is not State.OPEN:
                    leave(self._as_tenant())

    async def _begin(self, runtime: Runtime) -> None:
        """On the loop: makes the asyncio client anew and starts it."""
        raise AssertionError("each client has its own")

    def _end(self, coroutine: Coroutine[Any, Any, None], errands: Errands | None = None) -> None:
        """Closes by this; once. Not on the loop's thread."""
        with self._lock:
            state, thread = self._state, self._thread
            if state in (State.NEW, State.OPEN):
                self._state = State.CLOSING if thread is not None else State.CLOSED
        if state is not State.OPEN or thread is None:
            coroutine.close()
            return
        try:
            thread.call(coroutine, errands=errands)
        finally:
            self._state = State.CLOSED
            self._thread = None
            leave(self._as_tenant())

    @property
    def is_forked(self) -> bool:
        """Whether it is another process's."""
        return self._state is State.FORKED

    @property
    def is_over(self) -> bool:
        """Whether it is closed or being closed, or another process's."""
        return self._state not in (State.NEW, State.OPEN)

    # Waiting

    def check_may_wait(self) -> None:
        """WrongThread on the loop's own thread; WrongProcess after a fork."""
        if self._thread is not None:
            self._thread.check_may_wait()
        elif self.is_forked:
            raise self._refusal()

    def is_served(self) -> bool:
        """Whether there is a thread that works for it."""
        return self._thread is not None and self._thread.is_alive()

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
        if self._state is State.NEW:
            return not_started(self.kind, is_blocking=True)
        if self._thread is not None and not self._thread.is_alive():
            return KafkaError(
                ErrorCode.NETWORK_EXCEPTION,
                f"the {self.kind}'s thread has ended: a callback on it raised SystemExit",
            )
        if self._state is State.FORKED:
            return WrongProcess(
                f"this process was forked from the one that started the {self.kind}, whose thread "
                "and connections are not here: make another one of its `configuration` after the "
                "fork"
            )
        return closed(self.kind)

    # What the loop's thread wants of its tenants

    def _as_tenant(self) -> Tenant:
        """Who needs the thread: always the same."""
        return self

    def finish(self) -> None:
        """The program ends."""

    def close(self) -> None:
        """Closes its connections. May be called again."""
        raise AssertionError("each client has its own")

    def forked(self) -> None:
        """This is another process. Other threads may have held the lock."""
        self._lock = new_lock()
        self._thread = None
        if self._state in (State.OPEN, State.CLOSING):
            self._state = State.FORKED


async def _calling(function: Callable[[], T]) -> T:
    return function()
