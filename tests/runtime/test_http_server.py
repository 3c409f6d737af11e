"""The bounds on the connections of an HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.runtime import Runtime, http_server
from moldau.runtime.http_server import HttpServer
from tests.runtime.arena import HOST, play

pytestmark = pytest.mark.real

ASK = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


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
        await server.start(application)
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


def test_a_request_that_the_end_cuts_off_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def main(runtime: Runtime) -> None:
        begun = asyncio.Event()

        async def endless(scope: Any, receive: Any, send: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        server = HttpServer(runtime, "pages", "choose another port")
        _, port = server.bind(HOST, 0)
        await server.start(endless)
        asked = asyncio.ensure_future(answer(port))
        await begun.wait()
        await server.aclose()
        found = await asked
        assert found.startswith(b"HTTP/1.1 503 ")
        assert found.endswith(b"the server stops\n")

    play("asyncio", main)
    assert "Traceback" not in caplog.text
    assert not any(each.exc_info for each in caplog.records)
