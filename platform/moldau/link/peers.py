"""Connections to brokers with known ids and addresses: those of a broker to other brokers.

A client asks the cluster for its brokers (`cluster`); a broker reads them from its own metadata log
and passes them to `Peers.update`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address
from moldau.link.connection import Connection, ConnectionOptions
from moldau.link.connections import SHARED_LANE, Connections
from moldau.protocol.declare import Request, Response
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff

R = TypeVar("R", bound=Response)

RECONNECT: Final = Backoff(first_ms=50, longest_ms=1_000)


class Peers:
    """Other brokers by id, with one connection to each (and lane), made again after a loss."""

    def __init__(
        self,
        runtime: Runtime,
        options: ConnectionOptions,
        addresses: Mapping[int, Address] | None = None,
        *,
        reconnect: Backoff = RECONNECT,
        on_lost: Callable[[int], None] | None = None,
        on_opened: Callable[[int], None] | None = None,
    ) -> None:
        """`options.client_id` is shown in the other brokers' logs and quotas. `on_lost` is called
        with a broker whose connection ended while requests waited for it, and `on_opened` with one
        that has been connected to."""
        self.addresses: dict[int, Address] = dict(addresses or {})
        self._connections = Connections(runtime, options, reconnect, owner="link to other brokers")
        if on_lost is not None:
            self._connections.on_lost = partial(self._report_lost, on_lost)
        if on_opened is not None:
            self._connections.on_opened = partial(self._report, on_opened)

    def _report_lost(self, on_lost: Callable[[int], None], connection: Connection) -> None:
        if connection.in_flight:
            self._report(on_lost, connection)

    def _report(self, to: Callable[[int], None], connection: Connection) -> None:
        for node_id, address in self.addresses.items():
            if address == connection.address:
                to(node_id)

    def update(self, addresses: Mapping[int, Address]) -> None:
        """Set the present brokers. Close the connections to all other addresses."""
        self.addresses = dict(addresses)
        self._connections.keep_only(frozenset(addresses.values()), end_busy=True)

    async def connection(self, node_id: int, lane: str = SHARED_LANE) -> Connection:
        """Return the connection to that broker. After a failed attempt, wait for the backoff first.

        Raise KafkaError if it cannot be made: BROKER_NOT_AVAILABLE for an unknown id,
        NETWORK_EXCEPTION or REQUEST_TIMED_OUT with the address, UNSUPPORTED_VERSION. Raise
        ClientClosed after `aclose`.
        """
        address = self.addresses.get(node_id)
        if address is None:
            known = sorted(self.addresses)
            reason = "no address is known of the broker"
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, reason, broker=node_id, brokers=known)
        return await self._connections.open(address, lane)

    def ready(self, node_id: int, lane: str = SHARED_LANE) -> Connection | None:
        """Return the connection to that broker if it is open already; its `ask` needs no await."""
        address = self.addresses.get(node_id)
        return None if address is None else self._connections.ready(address, lane)

    async def request(
        self,
        node_id: int,
        request: Request,
        response: type[R],
        *,
        lane: str = SHARED_LANE,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Send a request once. `timeout_s` begins when the connection is open; without it the
        options' request timeout applies. Raise KafkaError as `connection` does."""
        connection = await self.connection(node_id, lane)
        return await connection.request(request, response, version=version, timeout_s=timeout_s)

    def hang_up(self, node_id: int, lane: str = SHARED_LANE) -> None:
        """Close the connection to that broker if it is open. Its requests fail."""
        address = self.addresses.get(node_id)
        if address is not None:
            self._connections.hang_up(address, lane)

    def hang_up_all(self, node_id: int) -> None:
        """Close the connections of all lanes to that broker. Their requests fail."""
        address = self.addresses.get(node_id)
        if address is not None:
            self._connections.hang_up_all(address)

    async def aclose(self) -> None:
        """Close all connections; requests in flight fail."""
        await self._connections.aclose()
