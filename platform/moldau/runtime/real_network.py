"""`Network` on the sockets of this machine, with the running event loop.

Invariant: a write to a transport that is closing is dropped. uvloop raises there instead, and so
does TLS on asyncio, so that in a loop over many clients one dead client could prevent the responses
to all others; therefore their transports are wrapped. asyncio's plain transports are correct on
Python 3.11 and used directly there. uvloop does not resolve names itself here: see `names`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from moldau.runtime.handshakes import Handshakes
from moldau.runtime.interface import BACKLOG, Listener, Network
from moldau.runtime.names import bound, connected, is_address, look_up, plain_address
from moldau.runtime.tls import TlsServer, TlsTransport

if TYPE_CHECKING:
    import ssl

P = TypeVar("P", bound=asyncio.BaseProtocol)

Buffer = bytes | bytearray | memoryview


# From Python 3.12 on, asyncio's own `writelines` fails once the connection is lost.
_ASYNCIO_FAILS = sys.version_info[:2] > (3, 11)


class QuietTransport(asyncio.Transport):
    """A transport that drops writes when it is closing, and otherwise calls the wrapped one."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._write = transport.write
        self._writelines = transport.writelines
        self._is_closing = transport.is_closing

    def write(self, data: Buffer) -> None:
        """Send or buffer the data; drop it if the connection is closing."""
        if not self._is_closing():
            self._write(data)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send the parts in order; drop them if the connection is closing."""
        if not self._is_closing():
            self._writelines(list_of_data)

    def write_eof(self) -> None:
        """Close this direction after the buffered data."""
        if not self._is_closing():
            self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Whether this direction can be closed alone; False under TLS."""
        return self._transport.can_write_eof()

    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._is_closing()

    def close(self) -> None:
        """Send the buffered data, then close."""
        self._transport.close()

    def abort(self) -> None:
        """Close without sending the buffered data."""
        self._transport.abort()

    def is_reading(self) -> bool:
        """Whether the protocol receives data."""
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        """Stop passing data to the protocol."""
        if not self._is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue passing data to the protocol."""
        if not self._is_closing():
            self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that wait to be sent."""
        return self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the limits as (low, high)."""
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits at which the protocol is told to pause and to resume writing."""
        self._transport.set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that is called from now on."""
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that is called."""
        return self._transport.get_protocol()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the wrapped transport's information."""
        return self._transport.get_extra_info(name, default)


class _Introduction(asyncio.Protocol):
    """The first protocol of a connection: it wraps the transport and installs the real protocol."""

    def __init__(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.protocol = factory()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wrap the transport and pass it on; no other method of this object is called."""
        # uvloop's transports do all that asyncio.Transport does, but do not derive from it.
        stream = cast(asyncio.Transport, transport)
        self.transport = QuietTransport(stream)
        stream.set_protocol(self.protocol)
        self.protocol.connection_made(self.transport)


def _is_uvloop(loop: asyncio.AbstractEventLoop) -> bool:
    return type(loop).__module__.partition(".")[0] == "uvloop"


def _needs_wrapping(loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> bool:
    return tls is not None or _is_uvloop(loop) or _ASYNCIO_FAILS


class RealListener(Listener):
    """A listening socket, or one for each address of a name."""

    def __init__(self, servers: list[asyncio.Server], handshakes: Handshakes | None = None) -> None:
        """`handshakes` are those under way, which end with the listener."""
        self._servers = servers
        self._handshakes = handshakes
        names = [each.getsockname() for server in servers for each in server.sockets]
        self._addresses = [(str(name[0]), int(name[1])) for name in names]

    @property
    def port(self) -> int:
        """The bound port."""
        return self._addresses[0][1]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Every bound (host, port)."""
        return list(self._addresses)

    def close(self) -> None:
        """Accept no more, and free the port."""
        for server in self._servers:
            close_server(server)
        if self._handshakes is not None:
            self._handshakes.close()


def close_server(server: asyncio.Server) -> None:
    """Close a server after its last connections are set up.

    1. asyncio's loop accepts a connection, and a task is to set it up. 2. The server is closed.
    3. The task asserts that it is open, so the connection stays open without a protocol. So here
    the sockets stop to listen at once, and the server is closed behind such tasks."""
    loop = server.get_loop()
    if _is_uvloop(loop):
        server.close()
        return
    for each in server.sockets:
        with suppress(NotImplementedError):  # Windows
            loop.remove_reader(each.fileno())
        with suppress(OSError):  # where only a close ends listening
            each.shutdown(socket.SHUT_RDWR)
    loop.call_soon(server.close)


def _under_tls(
    handshakes: Handshakes, factory: Callable[[], asyncio.BaseProtocol]
) -> Callable[[], asyncio.BaseProtocol]:
    """Return a factory that puts TLS under the protocols of another factory."""
    buffered = cast("Callable[[], asyncio.BufferedProtocol]", factory)
    return lambda: TlsTransport(handshakes, buffered)


class RealNetwork(Network):
    """The network of this machine: TCP sockets."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None,
        port: int,
        *,
        backlog: int = BACKLOG,
        tls: ssl.SSLContext | TlsServer | None = None,
    ) -> Listener:
        """Bind and listen."""
        handshakes: Handshakes | None = None
        if isinstance(tls, TlsServer):
            handshakes = Handshakes(tls)
            protocol_factory, tls = _under_tls(handshakes, protocol_factory), None
        loop = asyncio.get_running_loop()
        factory = protocol_factory
        if _needs_wrapping(loop, tls):

            def factory() -> asyncio.BaseProtocol:
                return _Introduction(protocol_factory)

        if port == 0 and not host:
            # Each address family would get a free port of its own.
            host = "0.0.0.0"  # noqa: S104 (the caller asks for every address)
        if not _is_uvloop(loop):
            server = await loop.create_server(factory, host or None, port, backlog=backlog, ssl=tls)
            return RealListener([server], handshakes)
        servers: list[asyncio.Server] = []
        with ExitStack() as unless_all_listen:
            sockets = await bound(host or None, port)
            for each in sockets:
                unless_all_listen.callback(each.close)
            for each in sockets:
                server = await loop.create_server(factory, sock=each, backlog=backlog, ssl=tls)
                unless_all_listen.callback(server.close)
                servers.append(server)
            unless_all_listen.pop_all()
        return RealListener(servers, handshakes)

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """Connect; try the addresses of a name in turn."""
        loop = asyncio.get_running_loop()
        if not _needs_wrapping(loop, tls):
            return await loop.create_connection(
                protocol_factory, host, port, ssl=tls, server_hostname=server_name
            )
        made: list[P] = []

        def factory() -> _Introduction:
            made.append(protocol_factory())
            return _Introduction(lambda: made[0])

        introduction: _Introduction
        if _is_uvloop(loop) and not is_address(host):
            if tls is not None and server_name is None:
                server_name = host
            _, introduction = await loop.create_connection(
                factory, sock=await connected(host, port), ssl=tls, server_hostname=server_name
            )
        else:
            _, introduction = await loop.create_connection(
                factory, host, port, ssl=tls, server_hostname=server_name
            )
        assert introduction.transport is not None, "connection_made comes before the result"
        return introduction.transport, made[0]

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        """Look the name up with the system's resolver, unless it is an address."""
        plain = plain_address(host)
        if plain is not None:
            return [(plain, port)]
        found = await look_up(host, port)
        return list(dict.fromkeys((each.host, int(each.address[1])) for each in found))
