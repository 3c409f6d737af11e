"""`Network` for one incarnation of a simulated node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from moldau.runtime.interface import BACKLOG, Listener, Network
from moldau.runtime.simulated.host import ANY_ADDRESS
from moldau.runtime.simulated.listener import SimulatedListener

if TYPE_CHECKING:
    import ssl

    from moldau.runtime.simulated.host import Host
    from moldau.runtime.simulated.incarnation import Incarnation
    from moldau.runtime.simulated.sockets import Sockets
    from moldau.runtime.tls import TlsServer

P = TypeVar("P", bound=asyncio.BaseProtocol)


class SimulatedNetwork(Network):
    """The sockets of one incarnation of a node."""

    has_sockets = False

    def __init__(self, sockets: Sockets, host: Host, incarnation: Incarnation) -> None:
        self._sockets = sockets
        self._host = host
        self._incarnation = incarnation

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None,
        port: int,
        *,
        backlog: int = BACKLOG,
        tls: ssl.SSLContext | TlsServer | None = None,
    ) -> Listener:
        """Accept connections on the node's address. TLS is left out, as its handshake has entropy
        of its own."""
        await self._sockets.admit(self._incarnation)
        server = await self._sockets.create_server(protocol_factory, host, port, backlog=backlog)
        names = [bound.getsockname() for bound in server.sockets]
        own = self._host.address
        return SimulatedListener(
            server, [(own if name == ANY_ADDRESS else name, port) for name, port in names]
        )

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """Connect to another node by name or address. TLS is left out."""
        await self._sockets.admit(self._incarnation)
        transport, protocol = await self._sockets.create_connection(protocol_factory, host, port)
        return transport, protocol  # type: ignore[return-value]

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        """Return the address of a node."""
        await self._sockets.admit(self._incarnation)
        return [entry[4] for entry in await self._sockets.getaddrinfo(host, port)]
