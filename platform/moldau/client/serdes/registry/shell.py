"""The registry's connections, with failover and retries.

A request goes to the address that answered last; where that fails (no connection, no answer in
time, or an answer that says "later") to the others, then again after a wait that doubles. A
connection that was kept and turns out closed is made anew at once, and counts as no failure.

Invariants: every request ends, after `max.retries` rounds at most; at most `_IDLE_MAX` connections
are kept for each address; what is asked for several times at once is asked once; who waits when it
is closed is told so, by a RegistryError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from moldau.client.serdes.registry.http import (
    HttpAddress,
    HttpAnswer,
    HttpBroken,
    HttpConnection,
    HttpRequest,
)
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.runtime import Runtime

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

RETRIABLE: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
_IDLE_MAX: Final = 4
_CLOSE_S: Final = 1.0
_READ_BYTES: Final = 64 * 1024


class Waits:
    """How long things may take, in seconds."""

    __slots__ = ("connect_s", "read_s", "retries_max", "retry_max_s", "retry_s")

    def __init__(
        self, connect_s: float, read_s: float, retries_max: int, retry_s: float, retry_max_s: float
    ) -> None:
        self.connect_s = connect_s
        self.read_s = read_s
        self.retries_max = retries_max
        self.retry_s = retry_s
        self.retry_max_s = retry_max_s

    def backoff_s(self, retry: int) -> float:
        """Before that retry, from 0."""
        return float(min(self.retry_max_s, self.retry_s * 2**retry))


class _Line:
    """One connection."""

    def __init__(
        self, talk: HttpConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.talk = talk
        self._reader = reader
        self._writer = writer

    async def exchange(self, request: HttpRequest) -> HttpAnswer:
        self._writer.write(self.talk.ask(request))
        await self._writer.drain()
        while (answer := self.talk.receive(await self._reader.read(_READ_BYTES))) is None:
            pass
        return answer

    def close(self) -> None:
        self._writer.close()

    async def aclose(self) -> None:
        self._writer.close()
        with suppress(OSError):
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()


def closed() -> RegistryError:
    """What whoever asks a client that is closed hears, or that is being closed."""
    return RegistryError("the client of the schema registry is closed")


class Registry:
    """The addresses of one registry, as one thing that answers."""

    def __init__(
        self,
        addresses: list[tuple[HttpAddress, str | None]],
        waits: Waits,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Each address with what authorizes there."""
        self._addresses = addresses
        self._waits = waits
        self._tls = tls
        self._first = 0
        self._idle: dict[HttpAddress, list[_Line]] = {address: [] for address, _ in addresses}
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}
        self._asking: dict[asyncio.Timeout, asyncio.Future[None]] = {}
        self._is_closed = False

    async def ask(self, runtime: Runtime, request: HttpRequest) -> HttpAnswer:
        """The answer, whatever it says; RegistryError when there is none to be had, or none any
        more."""
        if self._is_closed:
            raise closed()
        over = asyncio.get_running_loop().create_future()
        scope = asyncio.timeout(None)
        self._asking[scope] = over
        try:
            async with scope:
                return await self._ask(runtime, request)
        except TimeoutError:
            raise closed() from None  # what takes too long is caught below
        finally:
            del self._asking[scope]
            over.set_result(None)

    async def _ask(self, runtime: Runtime, request: HttpRequest) -> HttpAnswer:
        outcome: HttpAnswer | RegistryError | None = None
        for retry in range(self._waits.retries_max + 1):
            if retry:
                wait_s = self._waits.backoff_s(retry - 1)
                await asyncio.sleep(wait_s * runtime.random.uniform(0.8, 1.2))
            for index in self._in_turn():
                outcome = await self._try(runtime, index, request)
                if isinstance(outcome, HttpAnswer) and outcome.status not in RETRIABLE:
                    self._first = index
                    return outcome
        if isinstance(outcome, HttpAnswer):
            return outcome
        assert outcome is not None, "there is an address"
        raise outcome

    def _in_turn(self) -> list[int]:
        """The addresses, the one that answered last first."""
        count = len(self._addresses)
        return [(self._first + turn) % count for turn in range(count)]

    async def _try(
        self, runtime: Runtime, index: int, request: HttpRequest
    ) -> HttpAnswer | RegistryError:
        address, authorization = self._addresses[index]
        try:
            return await self._exchange(runtime, address, authorization, request)
        except TimeoutError:
            why = "no answer in time"
        except OSError as error:
            why = str(error) or type(error).__name__
        except HttpBroken as error:
            why = str(error)
        return RegistryError(
            f"the schema registry cannot be reached: {why}",
            retriable=True,
            url=str(address),
            setting="schema.registry.url",
        )

    async def _exchange(
        self,
        runtime: Runtime,
        address: HttpAddress,
        authorization: str | None,
        request: HttpRequest,
    ) -> HttpAnswer:
        while idle := self._idle[address]:
            line = idle.pop()
            # The registry may have closed it since. Asking twice changes nothing in this API.
            try:
                return await self._use(line, address, request)
            except TimeoutError:
                raise  # an OSError too, but a registry that is slow is not asked again at once
            except (HttpBroken, OSError):
                pass
        async with asyncio.timeout(self._waits.connect_s):
            reader, writer = await runtime.network.open_streams(
                address.host,
                address.port,
                tls=self._tls if address.is_tls else None,
                server_name=address.host if address.is_tls else None,
            )
        line = _Line(HttpConnection(address, authorization), reader, writer)
        return await self._use(line, address, request)

    async def _use(self, line: _Line, address: HttpAddress, request: HttpRequest) -> HttpAnswer:
        is_kept = False
        try:
            async with asyncio.timeout(self._waits.read_s):
                answer = await line.exchange(request)
            idle = self._idle[address]
            is_kept = line.talk.is_reusable and len(idle) < _IDLE_MAX and not self._is_closed
            if is_kept:
                idle.append(line)
            return answer
        finally:
            if not is_kept:
                line.close()

    async def once(
        self, runtime: Runtime, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """What `make` gives; who asks for the same meanwhile gets the same. Who is cancelled leaves
        the others their answer."""
        task = self._asked.get(key)
        if task is None:
            task = runtime.spawn(make(), name="ask the schema registry", reported=False)
            self._asked[key] = task
            task.add_done_callback(lambda done: self._asked_is_over(key, done))
        return cast(T, await asyncio.shield(task))

    def _asked_is_over(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._asked.pop(key, None)
        if not task.cancelled():
            task.exception()

    async def aclose(self) -> None:
        """Closes the connections; who still waits hears of it."""
        self._is_closed = True
        running = list(self._asking.values())
        for scope in self._asking:
            if scope.when() is None:  # else it is told already, by who closes at the same time
                scope.reschedule(asyncio.get_running_loop().time())
        if running:
            await asyncio.wait(running)
        lines = [line for idle in self._idle.values() for line in idle]
        for idle in self._idle.values():
            idle.clear()
        for line in lines:
            await line.aclose()
