"""Failover and retries over the connections to a registry.

A request goes to the address that answered last. If that fails (no connection, no answer in time,
or a status in `RETRIABLE`), it goes to the other addresses, then again after a wait that doubles. A
kept connection that turns out to be closed is opened again at once, which is not a failure.

`Registry` can be used on several event loops, one after the other or at the same time in several
threads. What belongs to one loop is a branch, `_InLoop`: connections and running requests.

Invariants: every request ends, after at most `max.retries` retries; equal requests that run at the
same time on a loop are sent once; closing the client ends each waiting request with a
RegistryError; a branch is used only on its own loop and in its own process; its connections are
closed before the loop is, or soon after the registry is garbage-collected.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast
from weakref import finalize

from moldau.client.base.lifecycle import OwnedRuntime
from moldau.client.serdes.registry.http import HttpAddress, HttpRequest, redirected
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.forks import hear_of_forks
from moldau.runtime.http_client import (
    BODY_BYTES_MAX,
    HttpAnswer,
    HttpClient,
    HttpTimeouts,
    NoAnswer,
)
from moldau.runtime.loop_thread import new_lock
from moldau.runtime.timeouts import Timeout, timeout

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

RETRIABLE: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
_REDIRECTS_MAX: Final = 5
_IDLE_MAX: Final = 4

_LEFT_BEHIND: Final[list[object]] = []
"""Branches of parent processes, kept so that garbage collection reports nothing about them."""


class RetryPolicy(NamedTuple):
    """The timeouts of a request, how often it is repeated, and the pauses before that."""

    waits: HttpTimeouts
    retries_max: int
    backoff: Backoff


def closed() -> RegistryError:
    """Return the error for requests to a client that is closed or being closed."""
    return RegistryError("the client of the schema registry is closed")


class _InLoop:
    """The connections and running requests of one event loop."""

    def __init__(
        self, runtime: Runtime | None, waits: HttpTimeouts, tls: ssl.SSLContext | None
    ) -> None:
        self._world = OwnedRuntime(runtime)
        self.runtime = self._world.enter()
        self._connections = HttpClient(
            self.runtime, waits, tls, idle_max=_IDLE_MAX, bytes_max=BODY_BYTES_MAX
        )
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}
        self._asking: dict[Timeout, asyncio.Future[None]] = {}
        self._life: AsyncGenerator[None, None] | None = None
        self.is_over = False

    async def open(self) -> None:
        """Start to watch for the end of the loop: before a loop is closed, it closes the unfinished
        asynchronous generators (`shutdown_asyncgens`)."""
        self._life = self._until_the_loop_ends()
        await anext(self._life)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._end()

    async def unless_closed(self, asking: Coroutine[Any, Any, T]) -> T:
        """Return the result of `asking`. Raise RegistryError if this branch is closed first."""
        over = asyncio.get_running_loop().create_future()
        scope = timeout(None)
        self._asking[scope] = over
        try:
            async with scope:
                return await asking
        except TimeoutError:
            raise closed() from None  # `asking` itself never raises TimeoutError
        finally:
            del self._asking[scope]
            over.set_result(None)

    async def once(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `make`. Concurrent requests with the same key share one call, which
        goes on if one of them is cancelled."""
        task = self._asked.get(key)
        if task is None:
            task = self.runtime.spawn(make(), name="ask the schema registry", reported=False)
            self._asked[key] = task
            task.add_done_callback(lambda done: self._asked_is_over(key, done))
        return cast(T, await asyncio.shield(task))

    def _asked_is_over(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._asked.pop(key, None)
        if not task.cancelled():
            task.exception()

    async def exchange(
        self, address: HttpAddress, authorization: str | None, request: HttpRequest
    ) -> HttpAnswer:
        """Return the answer of the address. Raise NoAnswer. Repeating a request changes nothing in
        this API."""
        headers = request.headers(authorization)
        if self.is_over:
            headers["Connection"] = "close"
        return await self._connections.request(
            request.method,
            f"{address}{request.target}",
            request.body,
            headers,
            is_repeatable=True,
        )

    async def aclose(self) -> None:
        """Close the connections, on the branch's loop. Waiting requests raise RegistryError."""
        await self._end()
        life, self._life = self._life, None
        if life is not None:
            await life.aclose()

    async def _end(self) -> None:
        self.is_over = True
        running = list(self._asking.values())
        for scope in self._asking:
            if scope.when() is None:  # else another `aclose` has already ended it
                scope.reschedule(asyncio.get_running_loop().time())
        if running:
            await asyncio.wait(running)
        await self._connections.aclose()
        with suppress(RuntimeError):  # at the end of the program, which has no threads any more
            await self._world.aclose()

    def close_soon(self) -> None:
        """Start `aclose` without waiting for it, on this branch's own loop."""
        self.runtime.spawn(self.aclose(), name="close the schema registry's connections")

    def forked(self) -> None:
        """Detach from the parent's connections, in a child process."""
        self._connections.forked()


class Registry:
    """The addresses of one registry, used as if they were one server."""

    def __init__(
        self,
        addresses: list[tuple[HttpAddress, str | None]],
        policy: RetryPolicy,
        tls: ssl.SSLContext | None,
        runtime: Runtime | None,
    ) -> None:
        """Take each address with its authorization. Without a runtime, each loop gets its own."""
        self._addresses = addresses
        self._policy = policy
        self._tls = tls
        self._runtime = runtime
        self._first = 0
        self._branches: _Branches = {}
        self._lock = new_lock()
        self.is_closed = False
        hear_of_forks(self)
        if runtime is None:  # else its owner closes it
            finalize(self, _close_soon, self._branches).atexit = False

    async def ask(self, request: HttpRequest) -> HttpAnswer:
        """Send the request and return the answer, whatever its status. Raise RegistryError if no
        address answers or the client is closed."""
        branch = await self._branch()
        return await branch.unless_closed(self._ask(branch, request))

    async def once(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `make`. Concurrent requests with one key on a loop share a call."""
        branch = await self._branch()
        return await branch.once(key, make)

    async def _branch(self) -> _InLoop:
        """Return the branch of the running loop. Raise RegistryError if the registry is closed."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.is_closed:
                raise closed()
            branch = self._branches.get(loop)
            if branch is not None:
                return branch
            for each in [each for each in self._branches if each.is_closed()]:
                del self._branches[each]
            branch = self._branches[loop] = _InLoop(self._runtime, self._policy.waits, self._tls)
        await branch.open()
        return branch

    async def _ask(self, branch: _InLoop, request: HttpRequest) -> HttpAnswer:
        outcome: HttpAnswer | RegistryError | None = None
        for retry in range(self._policy.retries_max + 1):
            if retry:
                await asyncio.sleep(self._policy.backoff.wait_s(retry, branch.runtime.random))
            for index in self._in_turn():
                outcome = await self._try(branch, index, request)
                if isinstance(outcome, HttpAnswer) and outcome.status not in RETRIABLE:
                    self._first = index
                    return outcome
        if isinstance(outcome, HttpAnswer):
            return outcome
        assert outcome is not None, "there is an address"
        raise outcome

    def _in_turn(self) -> list[int]:
        """Return the indexes of the addresses, beginning with the one that answered last."""
        count = len(self._addresses)
        return [(self._first + turn) % count for turn in range(count)]

    async def _try(
        self, branch: _InLoop, index: int, request: HttpRequest
    ) -> HttpAnswer | RegistryError:
        address, authorization = self._addresses[index]
        try:
            return await _follow(branch, address, authorization, request)
        except NoAnswer as error:
            why = str(error)
        return RegistryError(
            f"the schema registry cannot be reached: {why}",
            retriable=True,
            url=str(address),
            setting="schema.registry.url",
        )

    async def aclose(self) -> None:
        """Close the connections. Waiting requests raise RegistryError. Other loops close their
        connections as soon as they run."""
        others = self._closing()
        here = others.pop(asyncio.get_running_loop(), None)
        _close_soon(others)
        if here is not None:
            await here.aclose()

    def close_soon(self) -> None:
        """Close as `aclose` does, from any thread and without waiting."""
        _close_soon(self._closing())

    def _closing(self) -> _Branches:
        """Mark the registry as closed, so that no branch is added. Return the existing ones."""
        with self._lock:
            self.is_closed = True
            return dict(self._branches)

    def forked(self) -> None:
        """Drop the lock and all branches of the parent, in a child process; the addresses stay."""
        self._lock = new_lock()
        branches = list(self._branches.values())
        self._branches.clear()
        _LEFT_BEHIND.extend(branches)
        with ExitStack() as told:
            for branch in branches:
                told.callback(branch.forked)


async def _follow(
    branch: _InLoop, address: HttpAddress, authorization: str | None, request: HttpRequest
) -> HttpAnswer:
    """Return the answer of the address, or of the address that redirects lead to."""
    answer = await branch.exchange(address, authorization, request)
    for _ in range(_REDIRECTS_MAX):
        elsewhere = redirected(address, request, answer)
        if elsewhere is None:
            break
        address, request = elsewhere
        answer = await branch.exchange(address, authorization, request)
    return answer


_Branches = dict[asyncio.AbstractEventLoop, _InLoop]


def _close_soon(branches: _Branches) -> None:
    """Make each loop close its branch. Can be called from any thread."""
    for loop, branch in branches.items():
        with suppress(RuntimeError):  # the loop is closed, and its branch was closed before it
            loop.call_soon_threadsafe(branch.close_soon)
