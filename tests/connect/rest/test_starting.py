"""A worker that still reads its internal topics says so, and answers nothing that may be wrong."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import httpx2

from moldau.connect.herder.operations import Operations
from moldau.connect.rest.application import Api, make_application
from moldau.connect.rest.forwarding import ForwardingClient
from moldau.runtime.real import RealRuntime


def test_requests_about_connectors_are_503_until_the_topics_are_read() -> None:
    herder = SimpleNamespace(has_read=False, is_ready=False, stage="reading the internal topics")
    operations = cast(Operations, SimpleNamespace(herder=herder))
    api = Api(operations, lambda: "cluster", "1", ForwardingClient(RealRuntime("worker")))
    transport = httpx2.ASGITransport(make_application(api.routes(), {}))

    async def asked() -> dict[tuple[str, str], Any]:
        async with httpx2.AsyncClient(transport=transport, base_url="http://worker") as client:
            return {
                (method, path): await client.request(method, path, content="{}")
                for path, method, _ in api.table()
                if not path.startswith("/connector-plugins")
            }

    found = asyncio.run(asked())
    answers = {key: response.status_code for key, response in found.items()}

    assert answers.pop(("GET", "/")) == 200
    assert set(answers.values()) == {503}
    assert "reading the internal topics" in found["GET", "/connectors"].json()["message"]
