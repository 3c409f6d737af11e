"""An ASGI application served by uvicorn, on the event loop of the process that it belongs to.

Every HTTP server of the house is one: Connect's REST API, the registry, the console, the queries of
Streams, the metrics of a broker, the status of a pipeline. Each is behind the door
(`moldau.runtime.http_door`), which its start asks for. uvicorn comes with the distributions that
have a server.

Invariants: a server has at most CONNECTIONS_MAX connections, those that are closing and still send
a response among them; under TLS they count from the end of the handshake on. The files of a
broker's process are for its logs and clients first, so a connection without a request makes room
for a new one, and ends by itself after REQUEST_SECONDS. A request that is under way ends for
neither, however long it takes, and nothing keeps what belongs to a connection that has ended.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import replace
from email.utils import formatdate
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from moldau.errors import MoldauError
from moldau.runtime.children import process_environment
from moldau.runtime.http_door import (
    ALLOWED_HOSTS_VARIABLE,
    WILDCARDS,
    DoorRules,
    OnRefusal,
    behind_door,
    host_name,
    listed_names,
)
from moldau.runtime.places import host_name as machine_name
from moldau.runtime.real_network import close_server
from moldau.runtime.tls import following

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from moldau.runtime import Clock, Runtime

START_S: Final = 10.0
CONNECTIONS_MAX: Final = 512
REQUEST_SECONDS: Final = 30.0
"""How long a connection may be without the head of a request."""
GRACE_S: Final = 2
TICKS_OF_DATE: Final = 10
"""A tick is a tenth of a second."""
TURNS_OF_ACCEPT: Final = 4
"""Turns of the event loop from a connection that is accepted to its protocol, and one."""

_STOPS: Final = b"the server stops\n"
_STOPS_HEADERS: Final = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", str(len(_STOPS)).encode()),
]


class CannotListen(MoldauError):
    """The HTTP server cannot listen on its address."""


class HttpServer:
    """An HTTP server. Its port is reserved by `bind`; it accepts requests after `start`."""

    def __init__(self, runtime: Runtime, what: str, advice: str) -> None:
        """`what` is served, as errors call it; `advice` says what to do if the port is taken."""
        self._runtime = runtime
        self._what = what
        self._advice = advice
        self._address: tuple[str, int] | None = None
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    def bind(self, host: str, port: int) -> tuple[str, int]:
        """Bind the socket and return its address. For port 0 the system chooses the port. In a
        simulation the port is taken by `start`, and is not 0."""
        self._address = host, port
        if not self._runtime.network.has_sockets:
            assert port, "choose a port"
            return self._address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            listening.close()
            raise CannotListen(
                f"{self._what} cannot listen: {self._advice}, or end what listens there",
                address=f"{host}:{port}",
                error=str(error.strerror or error),
            ) from None
        self._socket = listening
        name = listening.getsockname()
        return host, int(name[1])

    async def start(
        self,
        application: Any,
        rules: DoorRules,
        context: Callable[[], ssl.SSLContext] | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> None:
        """Start to serve an ASGI application behind the door; with TLS if `context` returns a
        context for each handshake. `rules` need no names of this address, machine and process: they
        are added. `on_refusal` gets what is not let in. On return requests are answered."""
        assert self._address is not None, "bind first"
        host, port = self._address
        guarded = behind_door(application, self._with_own_names(rules), on_refusal)
        config = uvicorn.Config(
            _ended_quietly(guarded, self._is_closing), host, port,
            log_config=None, access_log=False, lifespan="off", ws="none",
            timeout_graceful_shutdown=GRACE_S, date_header=False,
        )  # fmt: skip
        config.load()
        config.http_protocol_class = _bounded(config.http_protocol_class)
        if context is not None:
            config.ssl = following(context)
        self._server = _Server(config, self._runtime.clock)
        serving = self._server.serve(None if self._socket is None else [self._socket])
        self._task = self._runtime.spawn(serving, name="http")
        async with asyncio.timeout(START_S):
            await self._server.answers.wait()

    async def aclose(self) -> None:
        """Finish the current requests, then free the port. One that takes longer than GRACE_S is
        cut off, and answered so if no answer has begun."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])
        if self._socket is not None:
            self._socket.close()

    def _is_closing(self) -> bool:
        return self._server is not None and self._server.should_exit

    def _with_own_names(self, rules: DoorRules) -> DoorRules:
        assert self._address is not None, "bind first"
        host, machine = self._address[0], machine_name().lower()
        bound = host if self._socket is None else self._socket.getsockname()[0]
        names = {host_name(each) for each in (host, bound, machine, *rules.names)}
        variable = process_environment().get(ALLOWED_HOSTS_VARIABLE, "")
        return replace(
            rules,
            names=names | {machine.partition(".")[0]},
            allowed=frozenset((*rules.allowed, *listed_names(variable))),
            is_wildcard=host in WILDCARDS,
        )


def _ended_quietly(application: Any, is_closing: Callable[[], bool]) -> Any:
    """Return the application with an answer to requests that the end of the server cuts off."""

    async def ended_quietly(scope: Any, receive: Any, send: Any) -> None:
        has_begun = False

        async def noted(message: Any) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await application(scope, receive, noted)
        except asyncio.CancelledError:
            if has_begun or not is_closing():
                raise
            await send({"type": "http.response.start", "status": 503, "headers": _STOPS_HEADERS})
            await send({"type": "http.response.body", "body": _STOPS})

    return ended_quietly


def _bounded(protocol: type[Any]) -> type[Any]:
    """Return the protocol of a server's connections, with the bounds on their number and time."""
    numbers = count()

    class Bounded(protocol):  # type: ignore[misc]
        """A connection. `cycle` is its latest request of which the head is there."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.number = next(numbers)
            self.is_cut_off = False
            self.waits_since = self.loop.time()
            self.timer = self.loop.call_later(REQUEST_SECONDS, self.end_without_request)
            if len(self.connections) > CONNECTIONS_MAX:
                self.make_room()

        def connection_lost(self, exc: Exception | None) -> None:
            self.timer.cancel()  # it would keep the request until it is due
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            """Begin to wait for the next request. Called when the transport has the response."""
            self.waits_since = self.loop.time()
            super().on_response_complete()

        def waits_for_request(self) -> bool:
            """Whether no request is under way."""
            return self.cycle is None or self.cycle.response_complete

        def can_make_room(self) -> bool:
            """Whether it may end for a new one: it has no request, and a response that it still
            sends has had its time."""
            if not (self.waits_for_request() or self.transport.is_closing()):
                return False
            return not self.is_sending() or self.loop.time() - self.waits_since >= REQUEST_SECONDS

        def is_sending(self) -> bool:
            unsent: int = self.transport.get_write_buffer_size()
            return unsent > 0

        def rank(self) -> tuple[bool, int]:
            """Return the place in the order of those that make room: the oldest first."""
            return self.is_sending(), self.number

        def make_room(self) -> None:
            """End one connection, perhaps this one, if too many do not end yet."""
            here = [each for each in self.connections if not each.is_cut_off]
            if len(here) > CONNECTIONS_MAX:
                idle = [each for each in here if each is not self and each.can_make_room()]
                min(idle, key=Bounded.rank, default=self).cut_off()

        def cut_off(self) -> None:
            self.is_cut_off = True
            self.transport.abort()

        def end_without_request(self) -> None:
            """End if there was no request for REQUEST_SECONDS. One that closes sends the rest."""
            if self.transport.is_closing():
                return
            left_s = REQUEST_SECONDS
            if self.waits_for_request():
                left_s = self.waits_since + REQUEST_SECONDS - self.loop.time()
            if left_s <= 0:
                self.cut_off()
            else:
                self.timer = self.loop.call_later(left_s, self.end_without_request)

    return Bounded


class _Server(uvicorn.Server):
    """A uvicorn server without signal handlers: the command handles the process's signals."""

    def __init__(self, config: uvicorn.Config, clock: Clock) -> None:
        super().__init__(config)
        self.answers = asyncio.Event()
        self._clock = clock

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the server. uvicorn ends the connections that it knows of at this moment, so those
        that are just accepted are set up first: it would leave them open, and wait for them."""
        if sockets is not None:
            for server in self.servers:
                close_server(server)
            for _ in range(TURNS_OF_ACCEPT):
                await asyncio.sleep(0)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Set the date of the responses, by the clock of the runtime: uvicorn asks the system's."""
        is_over = await super().on_tick(counter)
        if counter % TICKS_OF_DATE == 0:
            date = formatdate(self._clock.wall_ms() / 1000, usegmt=True)
            headers = [(b"date", date.encode()), *self.config.encoded_headers]
            self.server_state.default_headers = headers
        return is_over

    def capture_signals(self):  # type: ignore[no-untyped-def]
        from contextlib import nullcontext

        return nullcontext()
