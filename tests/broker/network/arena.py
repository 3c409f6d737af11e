"""A server, a service that does what a test wants, and clients: on any event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from moldau.broker.network import (
    Connection,
    ListenerOptions,
    NetworkMetrics,
    NetworkOptions,
    OpenDirect,
    Request,
    SocketServer,
)
from moldau.broker.network.request import Throttle
from moldau.errors import MalformedMessage
from moldau.logging import Level, Loggers
from moldau.metrics import HistogramValue, Registry
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request as Message
from moldau.protocol.declare import Response
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from tests.runtime.arena import HOST

VERSION = 12

Serve = Callable[[Request], object]


def ask(text: str) -> MetadataRequest:
    """A request with something in it that comes back."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=text)])


def echo(request: Request) -> None:
    """Answers with the text that was asked."""
    request.answer(answer_to(request))


def answer_to(request: Request) -> MetadataResponse:
    """The answer that `echo` gives."""
    message = request.decode()
    assert isinstance(message, MetadataRequest)
    assert message.topics
    return answer(message.topics[0].name or "")


def answer(text: str) -> MetadataResponse:
    """An answer with something in it."""
    return MetadataResponse(brokers=[], topics=[], cluster_id=text, controller_id=1)


class ScriptedService:
    """Serves as it is told, and writes down who came and went."""

    def __init__(self, serve: Serve = echo) -> None:
        self.served: Mapping[int, Versions] = {
            1: Versions(4, 18),
            3: Versions(0, 13),
            18: Versions(0, 4),
        }
        self.throttle: Throttle | None = None
        self.run: Serve = serve
        self.connections: list[Connection] = []
        self.lost: list[Connection] = []
        self.requests: list[Request] = []
        self._changed = asyncio.Event()

    def opened(self, connection: Connection) -> None:
        self.connections.append(connection)
        self._note()

    def serve(self, request: Request) -> None:
        self.requests.append(request)
        self.run(request)
        self._note()

    def closed(self, connection: Connection) -> None:
        assert connection in self.connections
        assert connection not in self.lost
        self.lost.append(connection)
        self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something that happened here makes it true."""
        while not condition():
            await self._changed.wait()


class Client:
    """The other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.protocol = ClientConnection("tester")

    def send(self, request: Message, version: int = VERSION, *, answered: bool = True) -> None:
        """Sends without waiting."""
        self.writer.writelines(self.protocol.send(request, version, expects_answer=answered))

    def frames(self, *texts: str) -> bytes:
        """The bytes of such requests, to be sent by hand."""
        return b"".join(b"".join(self.protocol.send(ask(text), VERSION)) for text in texts)

    async def receive(self) -> Response:
        """The next answer."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return self.protocol.receive(await self.reader.readexactly(size)).response

    async def text(self) -> str | None:
        """What the next answer says."""
        response = await self.receive()
        assert isinstance(response, MetadataResponse)
        return response.cluster_id

    async def is_closed(self) -> bool:
        """Waits for the end of the connection; False when something else came first."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Ends it from this side."""
        self.writer.close()


class Arena:
    """A server that listens, and all that can be seen of it."""

    def __init__(self, runtime: Runtime, options: NetworkOptions, direct: OpenDirect | None):
        self.runtime = runtime
        self.registry = Registry()
        self.lines: list[str] = []
        loggers = Loggers(runtime.clock, self.lines.append, level=Level.DEBUG)
        metrics = NetworkMetrics(self.registry)
        self.server = SocketServer(runtime, options, metrics, loggers.get("network"), direct)
        self.ports: dict[str, int] = {}
        self._clients: list[Client] = []

    async def listen(self, service: ScriptedService, options: ListenerOptions) -> Self:
        listener = await self.server.listen(options, service)
        self.ports[options.name] = listener.port
        return self

    async def connect(self, listener: str = "OUT") -> Client:
        """A client, closed with the arena."""
        port = self.ports[listener]
        client = Client(*await self.runtime.network.open_streams(HOST, port))
        self._clients.append(client)
        return client

    def count(self, name: str, *labels: str) -> Any:
        """The value of a metric; of all its series together without labels."""
        for metric in self.registry.snapshot():
            if metric.name == f"moldau.network.{name}":
                values = [
                    point.value
                    for point in metric.points
                    if not labels or tuple(value for _, value in point.attributes) == labels
                ]
                assert not any(isinstance(value, HistogramValue) for value in values)
                return sum(values)
        raise AssertionError(f"no metric {name}")

    async def close(self) -> None:
        """Everything ends."""
        for client in self._clients:
            client.close()
        await self.server.aclose()


@asynccontextmanager
async def serving(
    runtime: Runtime,
    service: ScriptedService,
    options: NetworkOptions | None = None,
    *listeners: ListenerOptions,
    direct: OpenDirect | None = None,
) -> AsyncIterator[Arena]:
    """A server for the time of a test."""
    arena = Arena(runtime, options or NetworkOptions(), direct)
    for listener in listeners or (ListenerOptions("OUT", HOST, 0),):
        await arena.listen(service, listener)
    try:
        yield arena
    finally:
        await arena.close()
        assert arena.server.connections == 0
        assert len(service.connections) == len(service.lost)
        assert arena.server.queued_request_bytes == 0


def refuse(request: Request) -> None:
    """What a decoder does with what it cannot understand."""
    raise MalformedMessage("count exceeds what is left", message="MetadataRequest")
