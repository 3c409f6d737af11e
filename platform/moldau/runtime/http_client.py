"""Requests by HTTP/1.1: httpcore's pool on the network of the runtime.

    client = HttpClient(runtime)
    answer = await client.request("GET", "https://id.example.com/keys")

It works on real sockets and in the simulator alike. `BlockingHttpClient` is for programs without an
event loop.

Invariants: redirects are not followed, so no secret goes to another place than the given one. An
answer has at most `bytes_max` bytes, whatever length it declares. No error shows a header. After a
fork, the child's descriptors lead to the null device, so that the parent's connections stay intact.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from moldau.deferred import dataclass
from moldau.runtime.forks import import_whole, leave_to_parent
from moldau.runtime.timeouts import timeout as within

if TYPE_CHECKING:
    from moldau.runtime.interface import Network, Runtime

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_CLOSE_S: Final = 1.0
_CONNECTED: Final = "connection.connect_tcp.complete"
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_OK: Final = 200
_GOOD: Final = range(200, 300)


class NoAnswer(Exception):
    """There is no whole answer: the peer cannot be reached, is too slow or does not speak HTTP."""


class UntrustedHost(NoAnswer):
    """The certificate of the other side is not trusted."""


class HttpTimeouts(NamedTuple):
    """Seconds to connect, and to wait for each part of an answer and for its whole body."""

    connect_s: float
    read_s: float


_WAITS: Final = HttpTimeouts(10.0, 10.0)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to a request; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_good(self) -> bool:
        """Whether the request did what it asked for."""
        return self.status in _GOOD

    @property
    def location(self) -> str | None:
        """Where a redirect leads, exactly as the peer wrote it."""
        return self.headers.get("location")

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """Return the value of the body, None if it is empty. Raise ValueError."""
        return json.loads(self.body) if self.body else None


class BaseUrl(NamedTuple):
    """The URL of an API without a login and a slash at its end, and the header of that login."""

    url: str
    headers: dict[str, str]


def base_url(text: str) -> BaseUrl:
    """Read the URL of an API; without a scheme it is http. Raise ValueError, without a password."""
    scheme, divider, place = text.partition("://")
    if not divider:
        scheme, place = "http", scheme
    login, _, shown = place.rstrip("/").rpartition("@")
    url = f"{scheme}://{shown}"
    try:
        parts = urlsplit(url)
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ValueError(f"{url} is no URL: {error}") from None
    if scheme not in ("http", "https") or not parts.hostname or not is_sendable(url):
        raise ValueError(f"{url} is no URL of the form http://HOST:PORT")
    user, _, password = login.partition(":")
    return BaseUrl(url, basic_login(unquote(user), unquote(password)) if login else {})


def basic_login(user: str, password: str) -> dict[str, str]:
    """Return the header of a login by a password."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def is_sendable(url: str) -> bool:
    """Whether a URL has only characters that HTTP takes."""
    return url.isascii() and url.isprintable() and " " not in url


def check_url(url: str) -> str | None:
    """Return why a URL is not fetched; None if it is. Plain http is for this machine alone:
    elsewhere the document could be changed on the way."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port, (host or "").encode("idna")
    except ValueError:
        return "it is no URL"
    if not is_sendable(url):
        return "it has a character that no URL has: write it as %XX, and a name as xn--..."
    if parts.username is not None:
        return "a user and a password in it are not sent: leave them out"
    if parts.scheme not in ("http", "https") or not host:
        return "it must be https://HOST/..."
    if parts.scheme == "http" and host not in _LOCAL:
        return "http can be read and changed on the way: give https"
    return None


class _Stream:
    """One connection, with the interface of httpcore's network streams, hence the `timeout`
    parameters. TLS, if there is any, is active from the beginning."""

    def __init__(
        self, backend: _Backend, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._backend = backend
        self._reader = reader
        self._writer = writer
        self._socket = writer.get_extra_info("socket")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        with self._backend.raising("Read"):
            async with within(timeout):
                return await self._reader.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        with self._backend.raising("Write"):
            async with within(timeout):
                self._writer.write(buffer)
                await self._writer.drain()

    async def start_tls(self, *_: object, **__: object) -> _Stream:
        """Return this stream: for an https address, the network has started TLS already."""
        return self

    async def aclose(self) -> None:
        """Close, or abort if the server does not take the rest."""
        self._backend.streams.pop(self, None)
        self._writer.close()
        try:
            with suppress(OSError):
                async with within(_CLOSE_S):
                    await self._writer.wait_closed()
        finally:
            self._writer.transport.abort()

    def get_extra_info(self, name: str) -> object:
        """Return for "is_readable" whether the peer has closed the idle connection, else None."""
        return self._reader.at_eof() if name == "is_readable" else None

    def forked(self) -> None:
        """Detach from the socket in a child process: the connection belongs to the parent."""
        leave_to_parent(self._socket)


class _Backend:
    """Opens streams on the runtime's network, behind TLS if `tls` is given."""

    def __init__(self, network: Network, tls: ssl.SSLContext | None) -> None:
        self._network = network
        self._tls = tls
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
                reader, writer = await self._network.open_streams(
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
            raise getattr(_httpcore(), f"{kind}Timeout")(str(error)) from error
        except OSError as error:
            reason = str(error) or type(error).__name__
            raise getattr(_httpcore(), f"{kind}Error")(reason) from error


class HttpClient:
    """The connections of one event loop to any addresses."""

    def __init__(
        self,
        runtime: Runtime,
        waits: HttpTimeouts = _WAITS,
        tls: ssl.SSLContext | None = None,
        *,
        idle_max: int = 0,
        bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        """`tls` is for https; None trusts the authorities of the system. `idle_max` connections are
        kept for the next request."""
        self._runtime = runtime
        self._waits = waits
        self._tls = tls
        self._idle_max = idle_max
        self._bytes_max = bytes_max
        self._backends: list[_Backend] = []
        self._pools: dict[str, Any] = {}

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        waits: HttpTimeouts | None = None,
        is_repeatable: bool = False,
    ) -> HttpAnswer:
        """Return the answer. Raise NoAnswer. A request that `is_repeatable` is sent again if its
        connection was kept and has turned out to be closed."""
        timing = waits or self._waits
        pool = await self._pool(urlsplit(url).scheme)
        given, sent = _given(headers, self._idle_max), body
        while True:
            opened: list[str] = []

            async def trace(event: str, _: object, opened: list[str] = opened) -> None:
                if event == _CONNECTED:
                    opened.append(event)

            extensions = {"timeout": _timeouts(timing), "trace": trace}
            try:
                with _no_answer():
                    async with (
                        pool.stream(
                            method, url, headers=given, content=sent, extensions=extensions
                        ) as response,
                        within(timing.read_s),
                    ):
                        pieces = response.aiter_stream()
                        return _answer(response, await _joined(pieces, self._bytes_max))
            except _ConnectionBroken:
                if opened or not is_repeatable:
                    raise

    async def fetch(self, url: str) -> bytes:
        """Return the document of a URL. Raise NoAnswer, also for any other status than 200."""
        answer = await self.request("GET", url)
        if answer.status != _OK:
            raise NoAnswer(f"it answers {answer.status}")
        return answer.body

    async def _pool(self, scheme: str) -> Any:
        if scheme == "https" and self._tls is None:  # a long list of authorities
            self._tls = await self._runtime.run_blocking(ssl.create_default_context)
        if scheme not in self._pools:
            import_whole("anyio._backends._asyncio")  # httpcore's locks; threads load it too
            backend = _Backend(self._runtime.network, self._tls if scheme == "https" else None)
            self._backends.append(backend)
            self._pools[scheme] = _httpcore().AsyncConnectionPool(
                ssl_context=self._tls,
                max_connections=None,
                max_keepalive_connections=self._idle_max,
                network_backend=backend,
            )
        return self._pools[scheme]

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.aclose()
        for backend in self._backends:
            for stream in list(backend.streams):
                await stream.aclose()

    def forked(self) -> None:
        """Detach from all sockets in a child process: the connections belong to the parent."""
        with ExitStack() as stack:
            for backend in self._backends:
                for stream in backend.streams:
                    stack.callback(stream.forked)


class BlockingHttpClient:
    """The same for a thread that may wait. Close it, or use it in a `with` block."""

    def __init__(self, waits: HttpTimeouts, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is for https; None trusts the authorities of the system."""
        self._waits = waits
        self._tls = tls
        self._pool: Any = None

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        waits: HttpTimeouts | None = None,
    ) -> HttpAnswer:
        """Return the answer. Raise NoAnswer."""
        if self._pool is None:
            if self._tls is None and url.startswith("https:"):
                self._tls = ssl.create_default_context()
            self._pool = _httpcore().ConnectionPool(ssl_context=self._tls)
        extensions = {"timeout": _timeouts(waits or self._waits)}
        with (
            _no_answer(),
            self._pool.stream(
                method, url, headers=_given(headers, 1), content=body, extensions=extensions
            ) as response,
        ):
            found = bytearray()
            for piece in response.iter_stream():
                _append(found, piece, BODY_BYTES_MAX)
            return _answer(response, bytes(found))

    def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            self._pool.close()


class _ConnectionBroken(NoAnswer):
    """A connection ended before its answer was complete."""


@contextmanager
def _no_answer() -> Iterator[None]:
    """Convert httpcore's errors, and those of wrong values, to NoAnswer."""
    core = _httpcore()
    try:
        yield
    except (core.TimeoutException, TimeoutError) as error:
        raise NoAnswer("no answer in time") from error
    except core.ConnectError as error:
        for cause in (error.__cause__, error.__context__):
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise UntrustedHost(cause.verify_message) from error
        raise NoAnswer(str(error)) from error
    except core.LocalProtocolError as error:  # its words would show the value
        raise NoAnswer("a header has a character that HTTP does not take") from error
    except (core.NetworkError, core.ProtocolError) as error:
        raise _ConnectionBroken(str(error) or type(error).__name__) from error
    except (core.UnsupportedProtocol, ValueError, TypeError) as error:
        raise NoAnswer("the address or a header has a character that HTTP does not take") from error


def _given(headers: Mapping[str, str] | None, idle_max: int) -> dict[str, str]:
    given = {"User-Agent": "moldau", "Accept": "application/json, */*;q=0.9", **(headers or {})}
    return given if idle_max else {"Connection": "close", **given}


def _timeouts(waits: HttpTimeouts) -> dict[str, float]:
    return {"connect": waits.connect_s, "read": waits.read_s, "write": waits.read_s}


async def _joined(pieces: AsyncIterator[bytes], bytes_max: int) -> bytes:
    found = bytearray()
    async for piece in pieces:
        _append(found, piece, bytes_max)
    return bytes(found)


def _append(found: bytearray, piece: bytes, bytes_max: int) -> None:
    found += piece
    if len(found) > bytes_max:
        raise NoAnswer(f"the answer is too long: more than {bytes_max} bytes")


def _answer(response: Any, body: bytes) -> HttpAnswer:
    pairs: Iterable[tuple[bytes, bytes]] = response.headers
    headers = {name.decode("latin-1").lower(): text.decode("latin-1") for name, text in pairs}
    return HttpAnswer(response.status, headers, body)


def _httpcore() -> Any:
    return import_whole("httpcore2")
