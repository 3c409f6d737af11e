"""The network layer: the price of a request, slices of files, and idle connections.

The server is a separate process, and its CPU time is measured: the client shares the machine with
it, and the wall clock would mostly measure the client. The peer is the least that an asyncio server
can do: the same frames on a bare `BufferedProtocol`, without headers, order, limits or metrics.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import select
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from struct import Struct
from typing import Any, ClassVar, NamedTuple, cast

from bench.harness import Case, Goal, Table
from moldau.broker.network import (
    Connection,
    ListenerOptions,
    NetworkMetrics,
    NetworkOptions,
    Request,
    SocketServer,
)
from moldau.logging import Loggers
from moldau.metrics import Registry
from moldau.protocol.declare import Response
from moldau.protocol.framing import FrameReader, shared_buffer
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from moldau.runtime.direct import open_direct
from moldau.runtime.files import File
from moldau.runtime.process import LoopKind, has_uvloop, tune_process
from moldau.runtime.real import run

HOST = "127.0.0.1"
REQUEST_BYTES = 200
ANSWER = bytes(192)
ROUND_TRIPS = 20_000
BUSY_CONNECTIONS = 50
IDLE_CONNECTIONS = 10_000
FILE_BYTES = 64 << 20
SENT_BYTES = 256 << 20

METADATA = 3
_HEAD = Struct(">ihhih")
_SIZE = Struct(">i")


class Plain(NamedTuple):
    """An answer whose parts are encoded already: the codec is measured elsewhere."""

    parts: list[Any]

    def encode_parts(self, version: int) -> list[Any]:
        """Return the parts, as a response does."""
        return self.parts


class Piece:
    """A slice of a file."""

    def __init__(self, file: File, position: int, size: int) -> None:
        self._file = file
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read_at(self, start: int, size: int) -> bytes:
        """Return a part of the slice."""
        return self._file.read_at(self.position + start, size)

    def fileno(self) -> int | None:
        """Return the file's descriptor, for sendfile."""
        return self._file.fileno()


class Echo:
    """Answers each request with the same number of bytes, or with a slice of a file."""

    served: ClassVar = {METADATA: Versions(0, 13)}

    def __init__(self, file: File, slice_bytes: int) -> None:
        self._file = file
        self._slice_bytes = slice_bytes
        self._position = 0

    @property
    def throttle(self) -> None:
        """There are no quotas."""

    def opened(self, connection: Connection) -> None:
        """Do nothing: there is no state for a connection."""

    def closed(self, connection: Connection) -> None:
        """Do nothing: there is no state for a connection."""

    def serve(self, request: Request) -> None:
        """Answer the request at once."""
        parts: list[Any] = [ANSWER]
        if self._slice_bytes:
            parts = [bytes(60), Piece(self._file, self._position, self._slice_bytes)]
            self._position = (self._position + self._slice_bytes) % FILE_BYTES
        request.answer(cast(Response, Plain(parts)))


class Bare(asyncio.BufferedProtocol):
    """The peer: a protocol that answers each frame with a frame."""

    buffer = shared_buffer()

    def __init__(self) -> None:
        self._frames = FrameReader(self.buffer)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        out = [_SIZE.pack(4 + len(ANSWER)) + frame[4:8] + ANSWER
               for frame in self._frames.received(nbytes)]  # fmt: skip
        if out:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))


async def serve(runtime: Runtime, pipe: Pipe, kind: str, slice_bytes: int) -> None:
    """Run a server until the pipe sends "stop". Answer questions about this process meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        file = runtime.files.open(f"{folder}/slices", "create")
        if slice_bytes:
            for _ in range(FILE_BYTES + slice_bytes >> 20):
                file.append(os.urandom(1 << 20))
        port = await listen(runtime, kind, Echo(file, slice_bytes))
        pipe.send(port)
        ended = asyncio.Event()

        def on_question() -> None:
            question = pipe.recv()
            if question == "stop":
                ended.set()
            else:
                pipe.send(time.process_time() if question == "cpu" else resident_bytes())

        asyncio.get_running_loop().add_reader(pipe.fileno(), on_question)
        await ended.wait()
        asyncio.get_running_loop().remove_reader(pipe.fileno())


async def listen(runtime: Runtime, kind: str, service: Echo) -> int:
    """Start a server of that kind and return its port."""
    if kind == "bare":
        return (await runtime.network.listen(Bare, HOST, 0)).port
    loggers = Loggers(runtime.clock, lambda line: None)
    server = SocketServer(
        runtime,
        NetworkOptions(),
        NetworkMetrics(Registry()),
        loggers.get("bench"),
        open_direct if kind == "sendfile" else None,
    )
    return (await server.listen(ListenerOptions("BENCH", HOST, 0), service)).port


def resident_bytes() -> int:
    """Return the memory of this process that is resident now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def server_process(pipe: Pipe, kind: str, loop: LoopKind, slice_bytes: int) -> None:
    """Run the server, in a child process."""
    tune_process()
    run(lambda runtime: serve(runtime, pipe, kind, slice_bytes), loop=loop)


class Server(NamedTuple):
    """A running child, as its parent sees it."""

    port: int
    pipe: Pipe

    def ask(self, question: str) -> float:
        """Return the `cpu` seconds or `rss` bytes of the child."""
        self.pipe.send(question)
        return float(self.pipe.recv())


@contextmanager
def running(kind: str, loop: LoopKind, slice_bytes: int = 0) -> Iterator[Server]:
    """Run a server in a separate process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=server_process, args=(theirs, kind, loop, slice_bytes))
    child.start()
    try:
        yield Server(int(ours.recv()), ours)
    finally:
        ours.send("stop")
        child.join()


def request(size: int = REQUEST_BYTES) -> bytes:
    """Return a Metadata request without a client id, of that size with its length prefix."""
    return _HEAD.pack(size - 4, METADATA, 1, 7, -1) + bytes(size - _HEAD.size)


def round_trips(port: int, connections: int, depth: int, count: int = ROUND_TRIPS) -> float:
    """Return round trips a second: `depth` requests at once on each connection, then all
    answers."""
    sent = request() * depth
    awaited = (8 + len(ANSWER)) * depth
    poll = select.epoll()
    left: dict[int, int] = {}
    sockets: dict[int, socket.socket] = {}
    for _ in range(connections):
        each = socket.create_connection((HOST, port))
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[each.fileno()] = each
        left[each.fileno()] = awaited
        poll.register(each, select.EPOLLIN)
        each.sendall(sent)
    buffer = bytearray(1 << 20)
    done = 0
    began = time.perf_counter()
    while done < count:
        for fileno, _ in poll.poll():
            left[fileno] -= sockets[fileno].recv_into(buffer)
            if not left[fileno]:
                done += depth
                left[fileno] = awaited
                sockets[fileno].sendall(sent)
    rate = done / (time.perf_counter() - began)
    poll.close()
    for each in sockets.values():
        each.close()
    return rate


def microseconds_a_request(kind: str, loop: LoopKind, depth: int) -> Callable[[], float]:
    """Return a round that measures the server's CPU microseconds for each request."""

    def measure() -> float:
        with running(kind, loop) as server:
            before = server.ask("cpu")
            round_trips(server.port, 16, depth, ROUND_TRIPS * min(depth, 4))
            return (server.ask("cpu") - before) / (ROUND_TRIPS * min(depth, 4)) * 1e6

    return measure


def cpu_ms_a_gigabyte(kind: str, loop: LoopKind, slice_bytes: int) -> Callable[[], float]:
    """Return a round that measures the server's CPU milliseconds for each GB of slices."""

    def measure() -> float:
        with running(kind, loop, slice_bytes) as server:
            with socket.create_connection((HOST, server.port)) as client:
                receive_slices(client, slice_bytes, slice_bytes * 4)
                before = server.ask("cpu")
                receive_slices(client, slice_bytes, SENT_BYTES)
            return (server.ask("cpu") - before) / SENT_BYTES * 1e12

    return measure


def receive_slices(client: socket.socket, slice_bytes: int, size: int) -> None:
    """Request slices one after the other, until `size` bytes were received."""
    buffer = bytearray(1 << 20)
    asked = request()
    for _ in range(size // slice_bytes):
        client.sendall(asked)
        left = slice_bytes + 68
        while left:
            left -= client.recv_into(buffer, min(left, len(buffer)))


@contextmanager
def idle(port: int, count: int) -> Iterator[None]:
    """Hold connections that have sent one request and then do nothing."""
    sockets = []
    for _ in range(count):
        each = socket.create_connection((HOST, port))
        each.sendall(request())
        sockets.append(each)
    for each in sockets:
        left = 8 + len(ANSWER)
        while left:
            left -= len(each.recv(left))
    yield
    for each in sockets:
        each.close()


def bytes_a_connection(kind: str, loop: LoopKind) -> Callable[[], float]:
    """Return a round that measures the server's resident bytes for each idle connection."""

    def measure() -> float:
        with running(kind, loop) as server, idle(server.port, 100):
            before = server.ask("rss")
            with idle(server.port, IDLE_CONNECTIONS):
                return (server.ask("rss") - before) / IDLE_CONNECTIONS

    return measure


def busy_rate(loop: LoopKind, idle_connections: int) -> Callable[[], float]:
    """Return a round that measures round trips a second of 50 connections beside idle ones."""

    def measure() -> float:
        with running("moldau", loop) as server, idle(server.port, idle_connections):
            return round_trips(server.port, BUSY_CONNECTIONS, 1, ROUND_TRIPS)

    return measure


def tables() -> Sequence[Table]:
    """Return all tables of this area."""
    loops: list[LoopKind] = ["asyncio", "uvloop"] if has_uvloop() else ["asyncio"]
    best = loops[-1]
    requests = [
        Table(
            f"Requests of 200 B, 16 connections, {depth} in flight on each",
            "us of server CPU a request",
            [
                Case(f"{name}, {loop}", microseconds_a_request(kind, loop, depth))
                for loop in loops
                for name, kind in (("bare protocol", "bare"), ("moldau", "moldau"))
            ],
            [Goal(f"moldau, {best}", at_most=10.0 if depth == 1 else 4.0)],
            higher_is_better=False,
        )
        for depth in (1, 16)
    ]
    slices = [
        Table(
            f"Slices of {size >> 10} KiB from page cache, one reader",
            "ms of server CPU a GB",
            [
                Case(f"{kind}, {loop}", cpu_ms_a_gigabyte(kind, loop, size))
                for loop in loops
                for kind in ("gathered", "sendfile")
            ],
            higher_is_better=False,
            notes=["`sendfile` is used for slices of 512 KiB and more"],
        )
        for size in (64 << 10, 256 << 10, 512 << 10, 1 << 20)
    ]
    idleness = [
        Table(
            f"{IDLE_CONNECTIONS} idle connections",
            "resident bytes each",
            [
                Case(f"{name}, {loop}", bytes_a_connection(kind, loop))
                for loop in loops
                for name, kind in (("bare protocol", "bare"), ("moldau", "moldau"))
            ],
            [Goal(f"moldau, {loop}", at_most=8192) for loop in loops],
            higher_is_better=False,
        ),
        Table(
            f"{BUSY_CONNECTIONS} busy connections",
            "round trips/s",
            [
                Case("alone", busy_rate(best, 0)),
                Case(f"beside {IDLE_CONNECTIONS} idle ones", busy_rate(best, IDLE_CONNECTIONS)),
            ],
            [Goal(f"beside {IDLE_CONNECTIONS} idle ones", versus="alone", ratio_at_least=0.9)],
        ),
    ]
    return [*requests, *slices, *idleness]
