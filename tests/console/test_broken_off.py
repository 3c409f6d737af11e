"""Requests that end by an error that no page knows: their line in the audit log, and their page."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from moldau.console.access.roles import Role
from moldau.console.access.routes import change
from moldau.console.access.visitor import Access
from moldau.console.application import Guard, make_application
from moldau.console.connection import Connection
from moldau.console.pages.cluster import Pages
from moldau.console.pages.rendering import Renderer
from moldau.logging import Loggers
from moldau.runtime.real import RealClock, RealRuntime


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), asyncio.CancelledError()], ids=["a bug", "the end"]
)
def test_a_change_without_an_answer_has_a_line(error: BaseException) -> None:
    lines: list[str] = []
    audit = Loggers(RealClock(), lines.append, json=True).get("audit")
    guard = Guard(Renderer("cluster"), Access(True, audit=audit))

    async def fail(request: Request) -> Response:
        raise error

    async def run() -> None:
        endpoint = guard.door(change("/topics", fail, "create a topic", Role.OPERATOR))
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/topics",
            "path_params": {},
            "query_string": b"",
            "headers": [],
        }
        with pytest.raises(type(error)):
            await endpoint(Request(scope))

    asyncio.run(run())
    (line,) = lines
    found = json.loads(line)
    told = ("change broken off", "unknown", 0)
    assert (found["event"], found["result"], found["status"]) == told


def test_a_bug_has_a_page_and_is_raised_on_for_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: Pages, request: Request) -> Response:
        raise RuntimeError("the secret of a client")

    monkeypatch.setattr(Pages, "topics", fail)

    async def run() -> None:
        async with RealRuntime("console") as runtime:
            connection = Connection({"bootstrap.servers": "127.0.0.1:9"}, runtime)
            application = make_application(connection, runtime.clock)
            try:
                quiet = httpx2.ASGITransport(application, raise_app_exceptions=False)
                async with httpx2.AsyncClient(transport=quiet, base_url="http://console") as client:
                    answer = await client.get("/topics")
                assert answer.status_code == 500
                assert "The console failed" in answer.text
                assert "RuntimeError" in answer.text
                assert "the secret" not in answer.text
                loud = httpx2.ASGITransport(application)
                async with httpx2.AsyncClient(transport=loud, base_url="http://console") as client:
                    with pytest.raises(RuntimeError, match="the secret"):
                        await client.get("/topics")
            finally:
                await connection.aclose()

    asyncio.run(run())
