"""No place of a connection is lost, in whatever way its handshake or its life ends."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from moldau.broker.network import ListenerOptions, NetworkOptions, acceptor
from moldau.runtime import Runtime
from moldau.runtime.real_network import RealListener
from moldau.runtime.tls import TlsServer
from tests.broker.network.arena import Arena, Client, ScriptedService, ask, serving
from tests.runtime.arena import HOST, REAL_ARENAS, play, until
from tests.runtime.localhost_certificate import certificate

__all__ = ["certificate"]

MANY = 20
HELLO = b"\x16\x03\x01\x02\x00"
"""The beginning of a handshake."""


@dataclass
class Door:
    """A server with a listener between brokers and one for others, both with TLS."""

    server: Arena
    service: ScriptedService
    trust: ssl.SSLContext
    failures: list[str] = field(default_factory=list)

    async def opened(self, name: str, sent: bytes = b"") -> list[Client]:
        """Return many connections without TLS, which send that."""
        clients = [await self.server.connect(name) for _ in range(MANY)]
        for each in clients:
            each.writer.write(sent)
        return clients

    async def logged_in(self, name: str, count: int = MANY) -> list[Client]:
        """Return connections that are served. Those that are rejected are left out."""
        clients = []
        for _ in range(count):
            with suppress(OSError, EOFError):
                streams = await self.server.runtime.network.open_streams(
                    HOST, self.server.ports[name], tls=self.trust, server_name="localhost"
                )
                client = Client(*streams)
                client.send(ask("one"))
                assert await client.text() == "one"
                clients.append(client)
        return clients


async def silence(door: Door, name: str) -> None:
    for each in await door.opened(name):
        assert await each.is_closed()
    assert "the handshake takes too long" in door.failures
    assert "too many handshakes are under way" in door.failures


async def no_tls(door: Door, name: str) -> None:
    for each in await door.opened(name, b"hello"):
        assert await each.is_closed()
    assert "the client does not speak TLS" in door.failures


async def a_bad_handshake(door: Door, name: str) -> None:
    for each in await door.opened(name, HELLO + bytes(600)):
        await each.reader.read()


async def an_end_in_the_middle(door: Door, name: str) -> None:
    for number, each in enumerate(await door.opened(name, HELLO)):
        (each.writer.transport.abort if number % 2 else each.close)()


async def a_whole_life(door: Door, name: str) -> None:
    clients = await door.logged_in(name)
    assert len(clients) == MANY
    for number, each in enumerate(clients):
        (each.writer.transport.abort if number % 2 else each.close)()


async def a_full_listener(door: Door, name: str) -> None:
    """Some wait in line, and leave it; the line is full for others."""
    clients = await door.logged_in(name, 2)
    waiting = await door.opened(name, HELLO)
    await until(lambda: door.server.count("connections.waiting", name) == 5)
    for each in waiting[:4]:
        each.close()
    for each in clients:
        each.close()
    for each in waiting:
        assert await each.is_closed()


async def a_line_that_takes_too_long(door: Door, name: str) -> None:
    clients = await door.logged_in(name, 2)
    for each in await door.opened(name):
        assert await each.is_closed()
    for each in clients:
        each.close()
    assert "no place was free in time" in door.failures


async def an_end_in_line(door: Door, name: str) -> None:
    clients = await door.logged_in(name, 2)
    waiting = await door.opened(name)
    await until(lambda: door.server.count("connections.waiting", name) == 5)
    for each in waiting:
        each.close()
        with suppress(OSError):
            await each.writer.wait_closed()
    for each in clients:
        each.close()


async def rejections(door: Door, name: str) -> None:
    clients = await door.logged_in(name)
    assert len(clients) < MANY
    for each in await door.opened(name):
        each.close()
    for each in clients:
        each.close()


async def a_closed_listener(door: Door, name: str) -> None:
    """It has connections that are served, in a handshake, and in line."""
    clients = await door.logged_in(name, 1)
    others = await door.opened(name, HELLO)
    door.server.server.close_listener(name)
    for each in (*clients, *others):
        assert await each.is_closed()


Way = tuple[Callable[[Door, str], Awaitable[None]], NetworkOptions, int]
"""How connections end, the limits of the node, and the most connections of a listener."""

WAYS: list[Way] = [
    (silence, NetworkOptions(), -1),
    (no_tls, NetworkOptions(), -1),
    (a_bad_handshake, NetworkOptions(), -1),
    (an_end_in_the_middle, NetworkOptions(), -1),
    (a_whole_life, NetworkOptions(), -1),
    (a_full_listener, NetworkOptions(waiting_connections_max=5), 2),
    (an_end_in_line, NetworkOptions(waiting_connections_max=5), 2),
    (a_line_that_takes_too_long, NetworkOptions(idle_ms_max=300), 2),
    (rejections, NetworkOptions(connections_max_per_address=3), -1),
    (rejections, NetworkOptions(connection_rate_of=lambda address: 3.0), -1),
    (a_closed_listener, NetworkOptions(waiting_connections_max=5), 3),
    (a_closed_listener, NetworkOptions(connections_max=3), -1),
]


def counted(server: Arena, listeners: list[RealListener]) -> list[object]:
    """Return everything that counts connections and is not at zero."""
    entrance = server.server._entrance
    limits = entrance.limits
    found: list[object] = [limits.connections, limits._here, limits._by_address, limits.held]
    found += [server.server.connections, limits.must_yield]
    for name in server.ports:
        found += [limits.admitted(name), limits.waiting(name)]
        found += [server.count(f"connections.{each}", name) for each in ("active", "waiting")]
    for each in listeners:
        handshakes = each._handshakes
        assert handshakes is not None
        found += [handshakes._count, handshakes._sources, handshakes._accepted, handshakes._ready]
    return [each for each in found if each]


@pytest.mark.parametrize("name", ["OUT", "IN"])
@pytest.mark.parametrize("arena", REAL_ARENAS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0].__name__)
def test_every_place_is_given_back(
    way: Way, arena: str, name: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, options, limit = way
    monkeypatch.setattr(acceptor, "HELD_SECONDS", 0.05)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    failures: list[str] = []
    tls = TlsServer(
        lambda: context,
        lambda peer, reason: failures.append(reason),
        handshake_seconds=0.3,
        handshakes_per_source_max=8,
        silent_seconds=0.0,
    )

    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        shown = (
            ListenerOptions(
                each, HOST, 0, tls=tls, connections_max=limit, is_protected=each == "IN"
            )
            for each in ("OUT", "IN")
        )
        async with serving(runtime, service, options, *shown) as server:
            listeners = [
                each for each in server.server._listeners.values() if isinstance(each, RealListener)
            ]
            trust = ssl.create_default_context(cafile=str(certificate))
            door = Door(server, service, trust, failures)
            assert len(listeners) == 2
            await end(door, name)
            await until(lambda: not counted(server, listeners))

    play(arena, scenario)
