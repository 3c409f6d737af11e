"""Connections by address: one each, made when it is asked for, and made again after it was lost.

Invariants: at most one connection an address and lane (most requests share one lane; what may wait
at the broker for long has its own), and one attempt to make it; between two attempts that fail lies
the reconnect backoff, which also follows the loss of a connection. `aclose` ends all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from moldau.errors.codes import KafkaError
from moldau.link.addresses import Address
from moldau.link.backoff import Backoff
from moldau.link.connection import Connection, ConnectionOptions
from moldau.link.lifetime import closed
from moldau.protocol.framing import shared_buffer
from moldau.runtime import Runtime
from moldau.runtime.cancellation import CancelledError, is_cancelling

T = TypeVar("T")

SHARED_LANE: Final = ""


@dataclass(slots=True)
class _Link:
    """What is known about reaching one address."""

    address: Address
    connection: Connection | None = None
    opening: asyncio.Task[Connection] | None = None
    failures: int = 0
    not_before: float = 0.0


class Connections:
    """The connections of one client, or of one broker to others."""

    def __init__(
        self,
        runtime: Runtime,
        options: ConnectionOptions,
        reconnect: Backoff,
        *,
        owner: str = "client",
    ) -> None:
        """`owner` is named by the error for a call after `aclose`."""
        self.on_lost: Callable[[Connection], None] | None = None
        """Called when a connection that stood has ended."""
        self._runtime = runtime
        self._options = options
        self._reconnect = reconnect
        self._owner = owner
        self._buffer = shared_buffer()
        self._links: dict[tuple[Address, str], _Link] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """How many stand."""
        return sum(link.connection is not None for link in self._links.values())

    async def open(self, address: Address, lane: str = SHARED_LANE) -> Connection:
        """The connection to the address: the one that stands, or a new one after the backoff.

        KafkaError if it cannot be made. ClientClosed after `aclose`.
        """
        self._check_open()
        link = self._links.get((address, lane))
        if link is None:
            link = self._links[address, lane] = _Link(address)
        if link.connection is not None:
            return link.connection
        if link.opening is None:
            link.opening = self._runtime.spawn(
                self._make(link), name=f"connect to {address}", reported=False
            )
            # Every caller may have given up: then nothing else looks at its failure.
            link.opening.add_done_callback(_look_at)
        return await result_of(link.opening, self._owner)

    def ready(self, address: Address, lane: str = SHARED_LANE) -> Connection | None:
        """The connection to the address if it stands already."""
        link = self._links.get((address, lane))
        return None if link is None else link.connection

    def standing(self, lane: str = SHARED_LANE) -> list[Connection]:
        """The connections of a lane that stand."""
        return [
            link.connection
            for (_, each), link in self._links.items()
            if link.connection is not None and each == lane
        ]

    def hang_up(self, address: Address, lane: str = SHARED_LANE) -> None:
        """Ends the connection to the address if it stands. Its requests fail."""
        link = self._links.get((address, lane))
        if link is not None and link.connection is not None:
            link.connection.close()

    def keep_only(self, addresses: Collection[Address], *, end_busy: bool = False) -> None:
        """Ends connections to other addresses, those with requests under way only if `end_busy`."""
        for key, link in list(self._links.items()):
            if link.address in addresses or link.opening is not None:
                continue
            if link.connection is None:
                del self._links[key]
            elif end_busy or (addresses and not link.connection.in_flight):
                link.connection.close()

    async def _make(self, link: _Link) -> Connection:
        try:
            wait = link.not_before - self._runtime.clock.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            connection = await Connection.open(
                self._runtime, link.address, self._options, self._buffer
            )
        except KafkaError:
            self._failed(link)
            raise
        finally:
            link.opening = None
        if self._is_closed:
            connection.close()
            self._check_open()
        link.failures = 0
        link.connection = connection
        connection.on_close = partial(self._lost, link)
        return connection

    def _failed(self, link: _Link) -> None:
        link.failures += 1
        wait_s = self._reconnect.wait_s(link.failures, self._runtime.random)
        link.not_before = self._runtime.clock.monotonic() + wait_s

    def _lost(self, link: _Link, connection: Connection) -> None:
        """The connection ended: the next `open` makes a new one, after the backoff."""
        link.connection = None
        self._failed(link)
        if self.on_lost is not None:
            self.on_lost(connection)

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed(self._owner)

    def refuse_more(self) -> None:
        """From now on `open` raises; what stands is left until `aclose`."""
        self._is_closed = True

    async def aclose(self) -> None:
        """Closes all connections; requests under way fail. May be called again, and ends then what
        a call that was cancelled has left."""
        self.refuse_more()
        opening: list[asyncio.Task[Any]] = [
            link.opening for link in self._links.values() if link.opening is not None
        ]
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        for link in list(self._links.values()):
            if link.connection is not None:
                link.connection.close()
        self._links.clear()


async def result_of(task: asyncio.Task[T], owner: str = "client") -> T:
    """The result of a task that several callers wait for: a caller that is cancelled does not end
    it for the others. ClientClosed if the task was cancelled, which means that its owner closed:
    CancelledError would end a caller that was not cancelled."""
    try:
        return await asyncio.shield(task)
    except CancelledError as error:
        if task.cancelled() and not is_cancelling(error):
            raise closed(owner) from None
        raise


def _look_at(task: asyncio.Task[Connection]) -> None:
    if not task.cancelled():
        task.exception()
