"""HTTP connections to a registry: httpcore's pool on the network of the runtime.

So the client works on real sockets and in the simulator alike, with the TLS and the timeouts of its
settings. The pool keeps idle connections and speaks HTTP/1.1; this module opens streams for it.

Invariants: an answer has at most `BODY_BYTES_MAX` bytes, whatever length it declares. After a fork,
the child's descriptors lead to the null device, so that the parent's connections stay intact.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from moldau.client.base.extras import need
from moldau.client.serdes.registry.http import HttpAddress, HttpAnswer, HttpRequest
from moldau.runtime import Runtime
from moldau.runtime.forks import import_whole, let_go
from moldau.runtime.timeouts import timeout as within

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_IDLE_MAX: Final = 4
_CLOSE_S: Final = 1.0
_CONNECTED: Final = "connection.connect_tcp.complete"


class HttpBroken(Exception):
    """The peer cannot be reached, does not speak HTTP, or closed before its answer was complete."""


class _Stream:
    """One connection, with the interface of httpcore's network streams, hence the `timeout`
    parameters. TLS, if there is any, is active from the beginning."""

    def __init__(
        self, opened: _Backend, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._opened = opened
        self._reader = reader
        self._writer = writer
        self._socket = writer.get_extra_info("socket")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        with self._opened.raising("Read"):
            async with within(timeout):
                return await self._reader.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        with self._opened.raising("Write"):
            async with within(timeout):
                self._writer.write(buffer)
                await self._writer.drain()

    async def start_tls(self, *_: object, **__: object) -> _Stream:
        """Return this stream: for an https address, the network has started TLS already."""
        return self

    async def aclose(self) -> None:
        self._opened.streams.pop(self, None)
        self._writer.close()
        with suppress(OSError):
            async with within(_CLOSE_S):
                await self._writer.wait_closed()

    def get_extra_info(self, name: str) -> object:
        """Return for "is_readable" whether the peer has closed the idle connection, else None."""
        return self._reader.at_eof() if name == "is_readable" else None

    def forked(self) -> None:
        """Detach from the socket in a child process: the connection belongs to the parent."""
        if hasattr(self._socket, "fileno") and self._socket.fileno() >= 0:  # real and still open
            let_go(self._socket.fileno())


class _Backend:
    """Opens streams on the runtime's network, behind TLS if `tls` is given."""

    def __init__(self, runtime: Runtime, tls: ssl.SSLContext | None, httpcore: Any) -> None:
        self._runtime = runtime
        self._tls = tls
        self._httpcore = httpcore
        self.streams: dict[_Stream, None] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        **_: object,
    ) -> _Stream:
        with self.raising("Connect"):
            async with within(timeout):
                reader, writer = await self._runtime.network.open_streams(
                    host, port, tls=self._tls, server_name=None if self._tls is None else host
                )
        stream = _Stream(self, reader, writer)
        self.streams[stream] = None
        return stream

    @contextmanager
    def raising(self, kind: str) -> Iterator[None]:
        """Convert the network's errors in the block to httpcore's."""
        try:
            yield
        except TimeoutError as error:
            raise getattr(self._httpcore, f"{kind}Timeout")(str(error)) from error
        except OSError as error:
            reason = str(error) or type(error).__name__
            raise getattr(self._httpcore, f"{kind}Error")(reason) from error


class Connections:
    """The connections of one event loop to the addresses of a registry."""

    def __init__(
        self, runtime: Runtime, tls: ssl.SSLContext | None, connect_s: float, read_s: float
    ) -> None:
        self._httpcore = need("httpcore2", "schema-registry")
        import_whole("anyio._backends._asyncio")  # httpcore's locks; loaded late, also by threads
        self._waits = {"connect": connect_s, "read": read_s, "write": read_s}
        self._read_s = read_s
        backends = {"http": _Backend(runtime, None, self._httpcore)}
        if tls is not None:
            backends["https"] = _Backend(runtime, tls, self._httpcore)
        self._backends = backends
        self._pools = {
            scheme: self._httpcore.AsyncConnectionPool(
                ssl_context=tls,
                max_connections=None,
                max_keepalive_connections=_IDLE_MAX,
                network_backend=backend,
            )
            for scheme, backend in backends.items()
        }

    async def exchange(
        self,
        address: HttpAddress,
        authorization: str | None,
        request: HttpRequest,
        *,
        is_last: bool = False,
    ) -> HttpAnswer:
        """Send the request to the address and return the answer. Raise TimeoutError or HttpBroken
        if there is none. `is_last` closes the connection after the answer."""
        headers = request.headers(authorization)
        if is_last:
            headers["Connection"] = "close"
        while True:
            connects: list[str] = []

            async def trace(event: str, _: object, connects: list[str] = connects) -> None:
                if event == _CONNECTED:
                    connects.append(event)

            try:
                return await self._ask(address, request, headers, trace)
            except self._httpcore.TimeoutException as error:
                raise TimeoutError(str(error)) from None
            except self._httpcore.ConnectError as error:
                raise HttpBroken(str(error)) from error
            except (self._httpcore.NetworkError, self._httpcore.ProtocolError) as error:
                # The registry may have closed a kept connection. Repeating a request changes
                # nothing in this API.
                if connects:
                    raise HttpBroken(str(error)) from error

    async def _ask(
        self, address: HttpAddress, request: HttpRequest, headers: dict[str, str], trace: Any
    ) -> HttpAnswer:
        async with self._pools[address.scheme].stream(
            request.method,
            f"{address}{request.target}",
            headers=headers,
            content=request.body,
            extensions={"timeout": self._waits, "trace": trace},
        ) as response:
            body = bytearray()
            async with within(self._read_s):
                async for piece in response.aiter_stream():
                    body += piece
                    if len(body) > BODY_BYTES_MAX:
                        raise HttpBroken("the answer is too long")
            location = next(
                (text.decode("latin-1") for name, text in response.headers if _is_location(name)),
                None,
            )
            return HttpAnswer(response.status, bytes(body), location)

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.aclose()
        for backend in self._backends.values():
            for stream in list(backend.streams):
                await stream.aclose()

    def forked(self) -> None:
        """Detach from all sockets in a child process: the connections belong to the parent."""
        with ExitStack() as told:
            for backend in self._backends.values():
                for stream in backend.streams:
                    told.callback(stream.forked)


def _is_location(name: bytes) -> bool:
    return name.lower() == b"location"
