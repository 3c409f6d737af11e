"""Connections by address: one to each, made on demand, and made again after a loss.

Invariants: at most one connection for each address and lane (most requests share one lane; requests
that may wait at the broker for long have their own), and one attempt to make it; between two failed
attempts there is the reconnect backoff, which also follows the loss of a connection. `aclose` ends
all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address
from moldau.link.connection import Connection, ConnectionOptions, Identity
from moldau.link.lifetime import closed
from moldau.protocol.framing import shared_buffer
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.cancellation import CancelledError, is_cancelling

if TYPE_CHECKING:
    from moldau.link.metadata import Broker

T = TypeVar("T")

SHARED_LANE: Final = ""


class Directory(Protocol):
    """The knowledge of which broker is at an address."""

    def identity_of(self, address: Address) -> Identity | None:
        """Return the broker that must be at the address; None if any may be."""

    def on_misrouted(self, address: Address, identity: Identity) -> None:
        """Take note that another broker is at the address of that one. Called before the attempt to
        connect fails."""


@dataclass(slots=True)
class _Link:
    """The connection to an address and lane, its failures, and the time of the next attempt."""

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
        directory: Directory | None = None,
    ) -> None:
        """`owner` is named by the error for a call after `aclose`. Without a `directory` any broker
        may be at an address."""
        self.on_lost: Callable[[Connection], None] | None = None
        """Called when an open connection has ended, before its requests fail."""
        self.on_opened: Callable[[Connection], None] | None = None
        """Called when a connection has been opened."""
        self._runtime = runtime
        self._options = options
        self._reconnect = reconnect
        self._owner = owner
        self._directory = directory
        self._buffer = shared_buffer()
        self._links: dict[tuple[Address, str], _Link] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of open connections."""
        return sum(link.connection is not None for link in self._links.values())

    async def open(self, address: Address, lane: str = SHARED_LANE) -> Connection:
        """Return the connection to the address: the open one, or a new one after the backoff.

        Raise KafkaError if it cannot be made, and ClientClosed after `aclose`.
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
            # If every caller has given up, nothing else retrieves its exception.
            link.opening.add_done_callback(_look_at)
        return await result_of(link.opening, self._owner)

    def ready(self, address: Address, lane: str = SHARED_LANE) -> Connection | None:
        """Return the connection to the address if it is already open."""
        link = self._links.get((address, lane))
        return None if link is None else link.connection

    def ready_among(self, brokers: Iterable[Broker]) -> dict[int, Connection]:
        """Return the open connections of the shared lane to these brokers, by node."""
        links, found = self._links, {}
        for broker in brokers:
            link = links.get((broker.address, SHARED_LANE))
            if link is not None and link.connection is not None:
                found[broker.node_id] = link.connection
        return found

    def is_resting(self, address: Address) -> bool:
        """Whether an attempt to connect to the address would wait for the backoff first."""
        link = self._links.get((address, SHARED_LANE))
        now = self._runtime.clock.monotonic()
        return link is not None and link.connection is None and link.not_before > now

    def standing(self, lane: str = SHARED_LANE) -> list[Connection]:
        """Return the open connections of a lane."""
        return [
            link.connection
            for (_, each), link in self._links.items()
            if link.connection is not None and each == lane
        ]

    def hang_up(self, address: Address, lane: str = SHARED_LANE) -> None:
        """Close the connection to the address if it is open. Its requests fail."""
        link = self._links.get((address, lane))
        if link is not None and link.connection is not None:
            link.connection.close()

    def hang_up_all(self, address: Address) -> None:
        """Close the connections of all lanes to the address. Their requests fail."""
        for link in self._links.values():
            if link.address == address and link.connection is not None:
                link.connection.close()

    def keep_only(self, addresses: Collection[Address], *, end_busy: bool = False) -> None:
        """Close connections to other addresses; those with requests only if `end_busy`."""
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
            connection = await self._connect(link.address)
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
        if self.on_opened is not None:
            self.on_opened(connection)
        return connection

    async def _connect(self, address: Address) -> Connection:
        """Connect to the broker that must be at the address. Another one counts as out of reach,
        which callers meet anyway: they try again with newer metadata."""
        directory = self._directory
        identity = None if directory is None else directory.identity_of(address)
        try:
            return await Connection.open(
                self._runtime, address, self._options, self._buffer, identity
            )
        except KafkaError as error:
            if error.code is not ErrorCode.REBOOTSTRAP_REQUIRED:
                raise
            if directory is not None and identity is not None:
                directory.on_misrouted(address, identity)
            raise _misrouted(address, identity) from None

    def _failed(self, link: _Link) -> None:
        link.failures += 1
        wait_s = self._reconnect.wait_s(link.failures, self._runtime.random)
        link.not_before = self._runtime.clock.monotonic() + wait_s

    def _lost(self, link: _Link, connection: Connection) -> None:
        """Forget an ended connection: the next `open` makes a new one, after the backoff."""
        link.connection = None
        self._failed(link)
        if self.on_lost is not None:
            self.on_lost(connection)

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed(self._owner)

    def refuse_more(self) -> None:
        """Let `open` raise from now on; open connections stay until `aclose`."""
        self._is_closed = True

    def forked(self) -> None:
        """Detach from all sockets in a child process, and open no more there."""
        self.refuse_more()
        for link in self._links.values():
            if link.connection is not None:
                link.connection.forked()

    async def aclose(self) -> None:
        """Close all connections; requests in flight fail. It may be called again, and then
        completes a call that was cancelled."""
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
    """Return the result of a task that several callers wait for: a cancelled caller does not end it
    for the others. Raise ClientClosed if the task was cancelled, which means that its owner was
    closed: CancelledError would end a caller that was not cancelled."""
    try:
        return await asyncio.shield(task)
    except CancelledError as error:
        if task.cancelled() and not is_cancelling(error):
            raise closed(owner) from None
        raise


def _misrouted(address: Address, identity: Identity | None) -> KafkaError:
    meant = {} if identity is None else identity._asdict()
    reason = "another broker is at this address now"
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, reason, address=str(address), **meant)


def _look_at(task: asyncio.Task[Connection]) -> None:
    if not task.cancelled():
        task.exception()
