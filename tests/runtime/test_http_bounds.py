"""When an HTTP server ends a connection, by a clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.runtime import http_server
from moldau.runtime.http_server import REQUEST_SECONDS, _bounded


@dataclass(eq=False)
class Timer:
    loop: Loop
    at: float
    call: Callable[[], object]

    def cancel(self) -> None:
        if self in self.loop.timers:
            self.loop.timers.remove(self)


@dataclass
class Loop:
    """The clock of the connections, and what they wait for."""

    now: float = 0.0
    timers: list[Timer] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, call: Callable[..., object], *args: object) -> Timer:
        timer = Timer(self, self.now + delay_s, lambda: call(*args))
        self.timers.append(timer)
        return timer

    def run_until(self, at: float) -> None:
        while due := [each for each in self.timers if each.at <= at]:
            first = min(due, key=lambda each: each.at)
            self.timers.remove(first)
            self.now = first.at
            first.call()
        self.now = at


@dataclass
class Transport:
    unsent: int = 0
    is_aborted: bool = False
    is_closed: bool = False

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Plain:
    """What uvicorn's protocols have in common."""

    def __init__(self, loop: Loop, connections: set[Any]) -> None:
        self.loop = loop
        self.connections = connections
        self.cycle: Any = None
        self.transport = Transport()

    def connection_made(self, transport: Transport) -> None:
        self.connections.add(self)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)

    def on_response_complete(self) -> None:
        self.cycle.response_complete = True


class Server:
    """A server without sockets."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.connections: set[Any] = set()
        self._protocol = _bounded(Plain)

    def connected(self) -> Any:
        connection = self._protocol(self.loop, self.connections)
        connection.connection_made(Transport())
        return connection


def test_a_request_is_never_ended_and_its_response_is_sent_whole() -> None:
    """It takes 58 seconds; of a large response a part is not sent yet when the next look is due."""
    server = Server()
    connection = server.connected()
    server.loop.run_until(1.0)
    connection.cycle = SimpleNamespace(response_complete=False)
    server.loop.run_until(58.0)
    assert not connection.transport.is_aborted
    connection.on_response_complete()
    connection.transport.unsent = 5_000_000
    server.loop.run_until(58.0 + REQUEST_SECONDS - 1)
    assert not connection.transport.is_aborted, "it has waited for 29 seconds"
    connection.transport.unsent = 0
    server.loop.run_until(58.0 + REQUEST_SECONDS + 1)
    assert connection.transport.is_aborted


def test_a_connection_that_closes_sends_the_rest() -> None:
    server = Server()
    connection = server.connected()
    connection.transport.is_closed = True
    server.loop.run_until(10 * REQUEST_SECONDS)
    assert not connection.transport.is_aborted


def test_nothing_is_kept_of_a_connection_that_has_ended() -> None:
    server = Server()
    connection = server.connected()
    connection.cycle = SimpleNamespace(response_complete=False)
    server.loop.run_until(REQUEST_SECONDS + 1)
    connection.connection_lost(None)
    assert server.loop.timers == []


def test_connections_that_still_send_count_and_make_room_when_they_had_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 2)
    server = Server()
    sends, silent = server.connected(), server.connected()
    sends.transport.is_closed, sends.transport.unsent = True, 1
    asks = server.connected()
    assert (sends.transport.is_aborted, silent.transport.is_aborted) == (False, True)
    asks.cycle = SimpleNamespace(response_complete=False)
    late = server.connected()
    assert (late.transport.is_aborted, sends.transport.is_aborted) == (True, False)
    for each in (silent, late):
        each.connection_lost(None)
    server.loop.run_until(REQUEST_SECONDS)
    assert not server.connected().transport.is_aborted
    assert (sends.transport.is_aborted, asks.transport.is_aborted) == (True, False)
