"""asyncio's network functions (`create_connection`, `create_server`, ...) on simulated machines.

The incarnation in the context names the calling machine; code of no node (the driver of a test) has
a machine of its own, named "world".
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.dial import Dial
from moldau.runtime.simulated.host import ANY_ADDRESS, LOOPBACK, Host
from moldau.runtime.simulated.incarnation import CURRENT, Incarnation
from moldau.runtime.simulated.listener import SimulatedServer
from moldau.runtime.simulated.refusal import refuse
from moldau.runtime.simulated.trace import WORLD

if TYPE_CHECKING:
    from moldau.runtime.simulated.fabric import Fabric
    from moldau.runtime.simulated.transport import SimulatedTransport

_IGNORED = {
    "all_errors",
    "family",
    "flags",
    "happy_eyeballs_delay",
    "interleave",
    "keep_alive",
    "local_addr",
    "proto",
    "reuse_address",
    "reuse_port",
    "server_hostname",
    "ssl_handshake_timeout",
    "ssl_shutdown_timeout",
}


def _check_options(options: dict[str, Any]) -> None:
    if options.pop("ssl", None):
        refuse("TLS", "its handshake has entropy of its own; use plain connections")
    if options.pop("sock", None) is not None:
        refuse("a ready-made socket", "give a host and a port")
    unknown = sorted(set(options) - _IGNORED)
    if unknown:
        raise TypeError(f"unexpected options: {', '.join(unknown)}")


class Sockets:
    """The socket layer of all machines."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._loop = fabric.loop

    async def admit(self, incarnation: Incarnation) -> None:
        """Return for a living incarnation; a dead one gets NodeKilled, or waits for ever."""
        if not incarnation.alive:
            self._loop.refuse(incarnation)
            await self._loop.create_future()

    async def _caller(self) -> tuple[Host, Incarnation | None]:
        incarnation = CURRENT.get()
        if incarnation is None:
            world = self._fabric.hosts.get(WORLD) or self._fabric.add_host(WORLD)
            return world, None
        await self.admit(incarnation)
        return self._fabric.hosts[incarnation.name], incarnation

    def resolve(self, source: Host, host: str) -> Host:
        """Return the machine with a name. Raise gaierror as a resolver would."""
        is_address = host.replace(".", "").isdigit()
        if not source.resolver_works and not is_address:
            raise socket.gaierror(socket.EAI_AGAIN, "temporary failure in name resolution")
        target = self._fabric.lookup(source, host)
        if target is None and not is_address:
            raise socket.gaierror(socket.EAI_NONAME, f"name or service not known: {host}")
        if target is None:
            raise OSError(113, f"no route to host: {host}")
        return target

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """Connect, as `loop.create_connection` does."""
        _check_options(options)
        if host is None or port is None:
            raise ValueError("host and port were not specified and no sock specified")
        source, incarnation = await self._caller()
        target = self.resolve(source, host)
        address = LOOPBACK if host in ("localhost", LOOPBACK) else target.address
        local = LOOPBACK if address == LOOPBACK else source.address
        dial = Dial(
            self._fabric, source, target, (local, source.ephemeral_port()), (address, int(port))
        )
        dial.send()
        transport = await dial.connected()
        protocol: asyncio.BaseProtocol | None = None
        try:
            protocol = protocol_factory()
        finally:
            if protocol is None:
                transport.abort()
        transport.start(protocol, incarnation)
        self._loop.trace.note(
            self._loop.now_ns, source.name, "connected", *transport.local, *transport.peer
        )
        return transport, protocol

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        *,
        backlog: int = 100,
        start_serving: bool = True,
        **options: Any,
    ) -> SimulatedServer:
        """Create a server, as `loop.create_server` does."""
        _check_options(options)
        machine, _ = await self._caller()
        names = [host] if host is None or isinstance(host, str) else list(host)
        port = port or machine.ephemeral_port()
        bound = list(dict.fromkeys((self._bind_address(machine, name), port) for name in names))
        server = SimulatedServer(
            self._loop, machine, bound, protocol_factory, copy_context(), backlog
        )
        if start_serving:
            server.listen()
        return server

    def _bind_address(self, machine: Host, name: str | None) -> str:
        if name in (None, "", ANY_ADDRESS, "::"):
            return ANY_ADDRESS
        if name in ("localhost", LOOPBACK):
            return LOOPBACK
        if self._fabric.lookup(machine, str(name)) is not machine:
            raise OSError(99, f"cannot assign requested address: {name}")
        return machine.address

    async def getaddrinfo(self, host: str | bytes | None, port: Any) -> list[Any]:
        """Look a name up, as `loop.getaddrinfo` does; TCP over IPv4 only."""
        source, _ = await self._caller()
        name = LOOPBACK if host is None else host.decode() if isinstance(host, bytes) else host
        target = self.resolve(source, name)
        address = LOOPBACK if name in ("localhost", LOOPBACK) else target.address
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port or 0)))]

    async def getnameinfo(self, sockaddr: tuple[str, int]) -> tuple[str, str]:
        """Return the name of an address, as `loop.getnameinfo` does."""
        source, _ = await self._caller()
        target = self._fabric.lookup(source, sockaddr[0])
        return (sockaddr[0] if target is None else target.name), str(sockaddr[1])
