"""The bounds on the connections of an HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import pytest

from moldau.config.environment import load_environment
from moldau.runtime import Runtime, http_server
from moldau.runtime.http_door import NO_BODY, DoorRules
from moldau.runtime.http_server import HttpServer
from moldau.runtime.places import host_name
from tests.runtime.arena import HOST, REAL_ARENAS, play

pytestmark = pytest.mark.real

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
RULES = DoorRules(NO_BODY)
PATIENCE_S = 60


async def application(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


async def answer(port: int, opened: Any = None, sent: bytes = ASK) -> bytes:
    """Return what a connection gets until its end."""
    reader, writer = opened or await asyncio.open_connection(HOST, port)
    writer.write(sent)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_silent_connections_make_room_and_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(runtime: Runtime) -> None:
        server = HttpServer(runtime, "pages", "choose another port")
        _, port = server.bind(HOST, 0)
        await server.start(application, RULES)
        monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)
        silent = [await asyncio.open_connection(HOST, port) for _ in range(3)]
        last = [await asyncio.open_connection(HOST, port) for _ in range(2)]
        for opened in silent[:2]:
            assert await answer(port, opened, b"") == b"", "the oldest one makes room"
        closing = ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        for opened in (silent[2], *last):
            assert (await answer(port, opened, closing)).endswith(b"ok")

        monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.05)
        for sent in (b"", b"GET / HTTP/1.1\r\nHost:", ASK):
            found = await answer(port, sent=sent)
            assert found.endswith(b"ok") == (sent == ASK)
        await server.aclose()

    play("asyncio", main)


@pytest.mark.parametrize(
    ("bound", "hosts"),
    [
        (HOST, {"localhost": 200, HOST: 200, "10.1.2.3": 403}),
        ("0.0.0.0", {"localhost": 200, "10.1.2.3": 200, "0.0.0.0": 200}),  # noqa: S104
    ],
)
def test_a_server_knows_the_names_of_its_address_machine_and_process(
    bound: str, hosts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOLDAU_HTTP_ALLOWED_HOSTS", "api.example.org, *.shop.internal")
    names = {"api.example.org": 200, "a.shop.internal": 200, "advertised": 200, "evil.example": 403}

    async def main(runtime: Runtime) -> None:
        server = HttpServer(runtime, "pages", "choose another port")
        _, port = server.bind(bound, 0)
        await server.start(application, DoorRules(NO_BODY, names=("Advertised",)))
        for host, status in {**hosts, **names, host_name(): 200}.items():
            sent = f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
            found = await answer(port, sent=sent)
            assert found.split()[1] == str(status).encode(), host
        await server.aclose()

    play("asyncio", main)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_a_connection_that_comes_as_the_server_ends_holds_nothing_up_and_ends(
    arena: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that says nothing stays until it is sent away. uvicorn ends what it knows of."""
    on_tick = http_server._Server.on_tick

    async def main(runtime: Runtime) -> None:
        async def then_connect(server: Any, counter: int) -> bool:
            is_over = await on_tick(server, counter)
            if is_over:
                silent.connect((HOST, port))
                for _ in range(turns):
                    await asyncio.sleep(0)
            return is_over

        monkeypatch.setattr(http_server._Server, "on_tick", then_connect)
        monkeypatch.setattr(http_server, "GRACE_S", PATIENCE_S)
        server = HttpServer(runtime, "pages", "choose another port")
        _, port = server.bind(HOST, 0)
        await server.start(application, RULES)
        async with asyncio.timeout(PATIENCE_S / 2):
            await server.aclose()
        with suppress(ConnectionResetError):
            assert silent.recv(1) == b""

    with socket(AF_INET, SOCK_STREAM) as silent:
        silent.settimeout(PATIENCE_S)
        play(arena, main)


def test_further_names_of_http_servers_are_no_setting_of_a_broker() -> None:
    assert load_environment({"MOLDAU_HTTP_ALLOWED_HOSTS": "a"}) == ()


def test_a_request_that_the_end_cuts_off_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def main(runtime: Runtime) -> None:
        begun = asyncio.Event()

        async def endless(scope: Any, receive: Any, send: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        server = HttpServer(runtime, "pages", "choose another port")
        _, port = server.bind(HOST, 0)
        await server.start(endless, RULES)
        asked = asyncio.ensure_future(answer(port))
        await begun.wait()
        await server.aclose()
        found = await asked
        assert found.startswith(b"HTTP/1.1 503 ")
        assert found.endswith(b"the server stops\n")

    play("asyncio", main)
    assert "Traceback" not in caplog.text
    assert not any(each.exc_info for each in caplog.records)
