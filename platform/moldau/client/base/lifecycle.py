"""How a client is opened and closed: its runtime, and what it has only from its `start` on.

Invariants: a client is opened at most once and, once closed, for good; one whose opening failed is
as it was before; a `start` waits for another one that is under way. If a client with a runtime of
its own is not closed when its event loop ends, or when it is collected, the log says how many
records it had left, and there is a ResourceWarning. The end of a loop is heard of by an
asynchronous generator, which `asyncio.run` closes then.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Self

from moldau.client.base.notices import not_hiding
from moldau.client.base.user_code import LOG
from moldau.config import Settings
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError, may_work_later
from moldau.link.cluster import Cluster
from moldau.link.lifetime import closed
from moldau.link.settings import bootstrap_servers, start_timeout_ms
from moldau.runtime import Runtime
from moldau.runtime.forks import hear_of_forks


class ClientNotStarted(MoldauError):
    """A client was used before it was started."""


def comes_with_start(kind: str) -> Any:
    """An attribute that `start` sets. Before that, reading it raises ClientNotStarted, or
    ClientClosed if the client's `_world` is closed; no method has to check."""
    return _NotThereYet(kind)


class _NotThereYet:
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get__(self, client: Any, owner: type[object]) -> Self:
        """For the class itself (mocks, introspection) it is the descriptor."""
        if client is None:
            return self
        if client._world.is_closed:
            raise closed(self._kind)
        raise not_started(self._kind, is_blocking=False)


def not_started(kind: str, *, is_blocking: bool) -> ClientNotStarted:
    """The error, with the advice for an asyncio or a blocking client."""
    helps = "a `with` block, or call start()"
    if not is_blocking:
        helps = "an `async with` block, or await start()"
    return ClientNotStarted(f"the {kind} is not started: use it in {helps}")


async def reach(cluster: Cluster, kind: str) -> None:
    """Wait for a cluster that is not up yet, at most `start.timeout.ms`; the log says so once, and
    when the cluster is there. KafkaError if it is not there by then."""
    clock, limit_s = cluster.runtime.clock, cluster.settings[start_timeout_ms] / 1000
    began, is_told = clock.monotonic(), False
    while True:
        try:
            await cluster.refresh()
        except KafkaError as error:
            waited_s = clock.monotonic() - began
            if waited_s >= limit_s or not may_work_later(error):
                if is_told:
                    facts = {"seconds": round(waited_s, 3), "setting": start_timeout_ms.name}
                    error.context = {**error.context, **facts}
                raise
            if not is_told:
                LOG.warning("%s: waits up to %g s for its cluster: %s", kind, limit_s, error)
            is_told = True
        else:
            break
    if is_told:
        LOG.warning("%s: reached its cluster in %.1f s", kind, clock.monotonic() - began)


class OwnedRuntime:
    """Makes a runtime if none was given, and closes only what it made."""

    def __init__(self, runtime: Runtime | None) -> None:
        self._given = runtime
        self._own: Runtime | None = None

    def enter(self) -> Runtime:
        """The runtime to use; belongs to the event loop that runs now."""
        if self._given is not None:
            return self._given
        from moldau.runtime.real import RealRuntime

        self._own = RealRuntime("client")
        return self._own

    def leave_tasks(self) -> None:
        """In a child process, end the tasks of the runtime that was made here."""
        from moldau.runtime.real import RealRuntime

        if isinstance(self._own, RealRuntime):
            self._own.forked()

    async def aclose(self, spared: Collection[asyncio.Task[Any]] = ()) -> None:
        """Ends the runtime that was made here, without these tasks, in which the user's code works.
        May be called again after a cancellation."""
        from moldau.runtime.real import RealRuntime

        own = self._own
        if isinstance(own, RealRuntime):
            await own.aclose(spared)
            self._own = None


class Lifecycle(OwnedRuntime):
    """The world of a client that has a `start`."""

    def __init__(
        self,
        kind: str,
        runtime: Runtime | None,
        lost: Callable[[], int] | None = None,
        on_missed: Callable[[], None] | None = None,
    ) -> None:
        """`kind` is the client's name in errors. `lost`: how many of its records would be lost if
        it ended now; asked from `start` on. `on_missed` is called if the event loop ends before the
        client is closed."""
        super().__init__(runtime)
        self.is_closed = False
        """Whether its user has begun to close it."""
        self.cluster: Cluster | None = None
        """What it is connected to, from `start` on."""
        self._kind = kind
        self._lost = lost
        self._is_open = False
        self._is_missed = False
        self._is_half_closed = False
        """Whether closing again what could not be opened was cancelled."""
        self._opening: asyncio.Future[None] | None = None
        """Done when the opening task is done, or has closed what could not be opened."""
        self._watch: AsyncGenerator[None, None] | None = None
        self._on_missed = on_missed
        hear_of_forks(self)

    def forked(self) -> None:
        """Leave everything to the parent, in a child process: each call of the client raises
        WrongProcess there. The child's copy is not closed, and nothing of it is lost."""
        if self.cluster is None or self.is_closed:
            return
        self.cluster.forked()
        self.leave_tasks()
        self._is_open = False
        self._lost = None
        if self._on_missed is not None:
            self._on_missed()

    def shown(self, client: object, settings: Settings) -> str:
        """The repr of the client: where it connects to, and its state."""
        state = "closed" if self.is_closed else "started" if self._is_open else "not started"
        servers = ",".join(map(str, settings[bootstrap_servers]))
        return f"<{type(client).__name__} {servers} ({state})>"

    def check_loop(self) -> None:
        """Raise an error in another event loop or process than those that have started it, if any
        have."""
        if self.cluster is not None:
            self.cluster.check_loop()

    async def disconnect(self) -> None:
        """Close the connections, if there are any."""
        if self.cluster is not None:
            await self.cluster.aclose()

    @asynccontextmanager
    async def opening(self, close: Callable[[], Awaitable[None]]) -> AsyncIterator[bool]:
        """For `start`: gives whether there is anything to do, and closes again what could not be
        opened. Waits for another `start` first. ClientClosed after a close, or the end of the
        loop."""
        while self._opening is not None and not self.is_closed:
            await asyncio.wait([self._opening])
        if self.cluster is not None and self.cluster.is_forked:
            self.check_loop()
        if self.is_closed or self._is_missed:
            raise closed(self._kind)
        if self._is_open:
            yield False
            return
        self._is_open = True
        self._opening = asyncio.get_running_loop().create_future()
        async with AsyncExitStack() as left:
            left.callback(self._end_opening, self._opening)
            left.push_async_exit(partial(self._close_unopened, close))
            if self._is_half_closed:
                await close()
                self._is_half_closed = False
            yield True
            if self._own is not None:
                self._watch = self._until_the_loop_ends()
                await anext(self._watch)

    async def _close_unopened(
        self, close: Callable[[], Awaitable[None]], kind: type[BaseException] | None, *_: object
    ) -> None:
        """The first error comes out, also if closing fails too."""
        if kind is None:
            return
        self._is_open = False
        self._is_half_closed = True
        with not_hiding(kind, self._kind):
            await close()
            self._is_half_closed = False

    def _end_opening(self, opening: asyncio.Future[None]) -> None:
        self._opening = None
        opening.set_result(None)

    async def aclose(self, spared: Collection[asyncio.Task[Any]] = ()) -> None:
        if self._watch is not None:
            await self._watch.aclose()
        await super().aclose(spared)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._miss()

    def _miss(self) -> None:
        """It was not closed, and cannot be closed any more."""
        if self.is_closed or self._is_missed or not self._is_open:
            return
        self._is_missed = True
        if self._on_missed is not None:
            self._on_missed()
        records = 0 if self._lost is None else self._lost()
        if records:
            LOG.error(
                "%s: not closed before the end of its event loop: %d records were not delivered, "
                "or it is unknown whether they were; use it in an `async with` block, or await "
                "aclose()",
                self._kind,
                records,
            )

    def __del__(self) -> None:
        if self._own is not None and self._is_open and not self.is_closed:
            self._miss()
            warnings.warn(f"unclosed {self._kind}", ResourceWarning, stacklevel=1, source=self)
