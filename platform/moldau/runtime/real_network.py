"""`Network` on the sockets of this machine, through whatever event loop is running.

Invariant: a write to a transport that is closing is dropped. uvloop raises there instead, and so
does TLS on asyncio, which in a loop over many clients lets one dead client spoil the answers to all
others; so their transports are wrapped. asyncio's plain ones behave on Python 3.11 and are handed
through there. On uvloop it is not the loop that looks names up: see `names`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar, cast

from moldau.runtime.interface import BACKLOG, Listener, Network
from moldau.runtime.names import bound, connected, is_address, look_up, plain_address

if TYPE_CHECKING:
    import ssl

P = TypeVar("P", bound=asyncio.BaseProtocol)

Buffer = bytes | bytearray | memoryview


# From Python 3.12 on, asyncio's own `writelines` fails once the connection is lost.
_ASYNCIO_FAILS = sys.version_info[:2] > (3, 11)


class QuietTransport(asyncio.Transport):
    """A transport that drops writes when it is closing; otherwise the one that it wraps."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._write = transport.write
        self._writelines = transport.writelines
        self._is_closing = transport.is_closing

    def write(self, data: Buffer) -> None:
        """Sends or buffers, or drops the data of a connection that is ending."""
        if not self._is_closing():
            self._write(data)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Sends the parts in order, or drops them."""
        if not self._is_closing():
            self._writelines(list_of_data)

    def write_eof(self) -> None:
        """Closes this direction after what is buffered."""
        if not self._is_closing():
            self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """False under TLS."""
        return self._transport.can_write_eof()

    def is_closing(self) -> bool:
        """Whether the end has begun."""
        return self._is_closing()

    def close(self) -> None:
        """Flushes and closes."""
        self._transport.close()

    def abort(self) -> None:
        """Closes without flushing."""
        self._transport.abort()

    def is_reading(self) -> bool:
        """Whether the protocol is to get more bytes."""
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        """Stops deliveries."""
        if not self._is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Goes on with deliveries."""
        if not self._is_closing():
            self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        return self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """(low, high)."""
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets when the protocol is told to stop and to go on writing."""
        self._transport.set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """From now on this protocol is called."""
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that is called."""
        return self._transport.get_protocol()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the wrapped transport says."""
        return self._transport.get_extra_info(name, default)


class _Introduction(asyncio.Protocol):
    """The first protocol of a connection: wraps the transport, and steps aside for the real one."""

    def __init__(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.protocol = factory()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The only call that this object gets."""
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

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers
        names = [each.getsockname() for server in servers for each in server.sockets]
        self._addresses = [(str(name[0]), int(name[1])) for name in names]

    @property
    def port(self) -> int:
        """The port that was bound."""
        return self._addresses[0][1]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Every (host, port) that is bound."""
        return list(self._addresses)

    def close(self) -> None:
        """Frees the port."""
        for server in self._servers:
            server.close()


class RealNetwork(Network):
    """TCP sockets."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None,
        port: int,
        *,
        backlog: int = BACKLOG,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        """Binds and listens."""
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
            return RealListener([server])
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
        return RealListener(servers)

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """Connects; tries the addresses of a name in turn."""
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
        """Asks the system's resolver, unless it is an address already."""
        plain = plain_address(host)
        if plain is not None:
            return [(plain, port)]
        found = await look_up(host, port)
        return list(dict.fromkeys((each.host, int(each.address[1])) for each in found))
