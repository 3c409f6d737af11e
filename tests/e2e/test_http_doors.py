"""Each route of each HTTP server of the house refuses what pages of other sites can send.

The routes are those of the servers' own tables, so a new one is asked too, and a new server without
a line here fails `tests/architecture/test_http.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.e2e.doors import HOST, Server, all_servers

pytestmark = pytest.mark.real

VARIABLE = re.compile(r"{[^}]*}")
EVIL = "http://evil.example"
BODY = b'{"name": "stolen", "config": {}}'
REFUSALS: dict[str, tuple[dict[str, str], int, str]] = {
    "another host": ({"Host": "evil.example"}, 403, "not reached by the name evil.example"),
    "another origin": ({"Origin": EVIL}, 403, "from another site"),
    "no origin": ({"Origin": "null"}, 403, "from another site"),
    "a port beside": ({"Origin": f"http://{HOST}:1"}, 403, "from another site"),
    "an image": ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403, "another"),
    "a frame": (
        {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "iframe",
        },
        403,
        "from another site",
    ),
    "plain text": ({"Content-Type": "text/plain"}, 415, ""),
    "a form with files": ({"Content-Type": "multipart/form-data; boundary=x"}, 415, ""),
}
"""What a page can send: headers, the status of the answer, and a part of its text."""
ALL = sorted(REFUSALS)


async def asked(server: Server, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Return status and body of the answer to a raw request."""
    given = {"Host": f"{HOST}:{server.port}", "Connection": "close", **headers}
    body = BODY if "Content-Type" in headers else b""
    if body:
        given["Content-Length"] = str(len(body))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in given.items())]
    reader, writer = await asyncio.open_connection(HOST, server.port)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        async with asyncio.timeout(60):
            head, _, found = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split()[1]), found.decode()
    finally:
        writer.close()


async def check(server: Server, methods: Iterable[str], path: str) -> None:
    """Each kind of request of a page is refused by the door."""
    for method in methods:
        for what in ALL:
            headers, expected, text = REFUSALS[what]
            status, body = await asked(server, method, VARIABLE.sub("x", path), headers)
            where = f"{server.module}: {method} {path}: {what}"
            assert status == expected, f"{where}: {body}"
            if method != "HEAD":
                answer = json.loads(body)
                assert answer["error_code"] == expected, where
                assert text in answer["message"], where


def test_no_route_of_any_server_takes_what_a_page_of_another_site_sends(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            EmbeddedBroker() as broker,
            RealRuntime("doors") as runtime,
            all_servers(runtime, broker, tmp_path) as servers,
        ):
            routes = [(each, *route) for each in servers for route in each.routes]
            assert len(routes) > 100
            for server, method, path in routes:
                await check(server, (method,), path)
            for server in servers:
                await check(server, ("GET", "POST", "PUT", "DELETE", "OPTIONS"), "/not-there")
                await check_own(server)

    asyncio.run(main())


async def check_own(server: Server) -> None:
    """A program is answered by each local name, and so are a page of the server and a link."""
    port = server.port
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    own = {"Origin": f"http://localhost:{port}", "Host": f"localhost:{port}"}
    path = next(path for method, path in server.routes if method == "GET" and "{" not in path)
    for headers in (
        {},
        {"Host": "localhost"},
        {"Host": f"[::1]:{port}"},
        {**own, "Sec-Fetch-Site": "same-origin"},
        {**link, "Sec-Fetch-Dest": "document"},
    ):
        status, body = await asked(server, "GET", path, headers)
        assert status not in (403, 415), f"{server.module}: {path}: {body}"
