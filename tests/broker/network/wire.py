"""Connections without sockets: bytes are put in by hand, and what is written is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moldau.broker.network import ListenerOptions, NetworkMetrics, NetworkOptions
from moldau.broker.network.acceptor import Acceptor, Entrance
from moldau.broker.network.reactor import Reactor
from moldau.broker.network.shell import Connection
from moldau.logging import Loggers
from moldau.metrics import Registry
from moldau.protocol.connection import ClientConnection
from moldau.runtime import Runtime
from tests.broker.network.arena import VERSION, ScriptedService, ask


class Wire(asyncio.Transport):
    """Takes everything, and says no more than it must."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.writes = 0
        self.is_aborted = False
        self.is_closed = False
        self.is_paused = False
        self.unsent_bytes = 0
        self.protocol: Connection

    def write(self, data: Any) -> None:
        self.written += data
        self.writes += 1

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def receive(self, data: bytes) -> None:
        while data:
            buffer = self.protocol.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.protocol.buffer_updated(count)
            data = data[count:]


def wired(
    runtime: Runtime,
    service: ScriptedService,
    settings: NetworkOptions | None = None,
    lines: list[str] | None = None,
) -> Iterator[Callable[[], Wire]]:
    """Makes connections without sockets."""
    log = Loggers(runtime.clock, (lines if lines is not None else []).append).get("network")
    metrics = NetworkMetrics(Registry())
    loop = asyncio.get_running_loop()
    reactor = Reactor(loop, runtime.clock, settings or NetworkOptions(), metrics, log)
    entrance = Entrance(reactor, None)
    options = ListenerOptions("OUT")
    entrance.limits.add_listener(options)
    acceptor = Acceptor(entrance, options, service, lambda name: False)

    def connect() -> Wire:
        wire = Wire()
        wire.protocol = acceptor()
        wire.protocol.connection_made(wire)
        return wire

    yield connect
    for connection in list(reactor.connections):
        connection.connection_lost(None)
    assert reactor.memory.used == 0


def stream(*texts: str) -> bytes:
    client = ClientConnection("tester")
    return b"".join(b"".join(client.send(ask(text), VERSION)) for text in texts)
