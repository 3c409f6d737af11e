"""A page of another site in a real browser tries all that pages can send, at every server.

The browser takes `evil.example` for this machine, as the name server of an attacker makes it: the
page comes from a port beside the servers, and the servers are asked by that name, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from moldau.runtime import Runtime
from moldau.runtime.http_door import NO_BODY, DoorRules
from moldau.runtime.http_server import HttpServer
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.screen import chromium, opened
from tests.e2e.doors import HOST, Server, all_servers

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.real, pytest.mark.deep]

EVIL: Final = "evil.example"
RESOLVED: Final = f"--host-resolver-rules=MAP {EVIL} {HOST}"
CONFIG: Final = (
    '{"name": "stolen", "config": {"connector.class": "FileStreamSink", '
    '"topics": "t", "file": "stolen.txt"}}'
)
TRIES: Final = """
async ([target, method, path, body]) => {
    const found = [];
    const send = async (name, options) => {
        try {
            const answer = await fetch(target + path, {method, body, ...options});
            found.push([name, answer.type, answer.status]);
        } catch (error) {
            found.push([name, "failed", 0]);
        }
    };
    const plain = {"Content-Type": "text/plain"}, json = {"Content-Type": "application/json"};
    await send("cors", {headers: json});
    await send("plain", {headers: plain});
    await send("simple", {mode: "no-cors", headers: plain});
    await send("no type", {mode: "no-cors", body: new Blob([body])});
    await send("beacon", {mode: "no-cors", keepalive: true, credentials: "include"});
    navigator.sendBeacon(target + path, new Blob([body], {type: "text/plain"}));
    for (const enctype of ["text/plain", "application/x-www-form-urlencoded"]) {
        const frame = document.createElement("iframe");
        frame.name = "sink-" + enctype + path;
        document.body.append(frame);
        const form = document.createElement("form");
        Object.assign(form, {action: target + path, method: "POST", enctype, target: frame.name});
        const input = document.createElement("input");
        Object.assign(input, {name: body.slice(0, -1) + ', "x": "', value: '"}'});
        form.append(input);
        document.body.append(form);
        const shown = new Promise(done => frame.addEventListener("load", done));
        form.submit();
        await shown;
    }
    return found;
}
"""
READS: Final = """
async ([target, path]) => {
    const image = new Image();
    const shown = new Promise(done => { image.onload = image.onerror = done; });
    image.src = target + path;
    await shown;
    const frame = document.createElement("iframe");
    const loaded = new Promise(done => frame.addEventListener("load", done));
    frame.src = target + path;
    document.body.append(frame);
    await loaded;
    try {
        return await (await fetch(target + path)).text();
    } catch (error) {
        return "failed";
    }
}
"""
CHANGES: Final = {
    "connect/server.py": ("POST", "/connectors", CONFIG),
    "registry/server.py": ("POST", "/subjects/stolen/versions", '{"schema": "\\"string\\""}'),
    "console/server.py": ("POST", "/topics", "name=stolen&partitions=1"),
}


@asynccontextmanager
async def evil_page(runtime: Runtime) -> AsyncIterator[int]:
    """Serve an empty page; yield its port."""

    async def page(request: Request) -> Response:
        return HTMLResponse("<!doctype html><title>evil</title><body></body>")

    server = HttpServer(runtime, "the page", "choose another port")
    try:
        _, port = server.bind(HOST, 0)
        made = Starlette(routes=[Route("/", page)])
        await server.start(made, DoorRules(NO_BODY, names=(EVIL,)))
        yield port
    finally:
        await server.aclose()


def named(server: Server, host: str) -> str:
    return f"http://{host}:{server.port}"


async def attack(page: Page, server: Server, host: str) -> list[Any]:
    """Send what the open page can to a server by that name; return what it learns."""
    found: list[Any] = []
    if server.module in CHANGES:
        method, path, body = CHANGES[server.module]
        given = [named(server, host), method, path, body]
        found += await page.evaluate(TRIES, given)
        found += await page.evaluate(TRIES, [given[0], "PUT", f"{path}/x/config", body])
    path = next(path for method, path in server.routes if method == "GET" and "{" not in path)
    found.append(await page.evaluate(READS, [named(server, host), path]))
    return found


def is_harmless(found: Any, is_own_name: bool) -> bool:
    """Whether a page has learned nothing: no answer, an opaque one, or under its own name, which
    leads to a server here, a refusal."""
    if isinstance(found, str):
        return found == "failed" or (is_own_name and '"error_code": 403' in found)
    _, kind, status = found
    return kind in ("failed", "opaque") or (is_own_name and status == 403)


async def check_untouched(servers: list[Server], broker: EmbeddedBroker, folder: Path) -> None:
    """Nothing was made."""
    by = {each.module: each.address for each in servers}
    rest = next(each.address for each in servers if ("POST", "/connectors") in each.routes)
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        assert (await client.get(f"{rest}/connectors")).json() == []
        assert (await client.get(f"{by['registry/server.py']}/subjects")).json() == []
        assert "stolen" not in (await client.get(f"{by['console/server.py']}/topics")).text
    assert not (folder / "stolen.txt").exists()


def test_a_page_of_another_site_commands_no_server(tmp_path: Path) -> None:
    chromium()

    async def main() -> None:
        async with (
            EmbeddedBroker() as broker,
            RealRuntime("doors") as runtime,
            all_servers(runtime, broker, tmp_path) as servers,
            evil_page(runtime) as port,
            opened(RESOLVED) as browser,
        ):
            page = await browser.new_page()
            for site, host in (
                (f"http://{EVIL}:{port}", HOST),
                (f"http://{EVIL}:{port}", EVIL),
                (f"http://localhost:{port}", "localhost"),
            ):
                for server in servers:
                    await page.goto(site)
                    found = await attack(page, server, host)
                    assert all(is_harmless(each, False) for each in found), (server, found)
            for server in servers:  # the name leads to the server once the page is there
                shown = await page.goto(named(server, EVIL))
                assert shown is not None
                assert shown.status == 403
                found = await attack(page, server, EVIL)
                assert all(is_harmless(each, True) for each in found), (server, found)
            await check_untouched(servers, broker, tmp_path)
            await check_link(page, servers[0], f"http://{EVIL}:{port}")

    asyncio.run(main())


async def check_link(page: Page, console: Server, site: str) -> None:
    """A link on another site leads to a page here, whose own forms work."""
    await page.goto(site)
    await page.evaluate("to => { window.location = to; }", f"{console.address}/topics")
    await page.wait_for_url(f"{console.address}/topics")
    assert "Topics" in await page.title()
    made = await page.evaluate(
        "async () => (await fetch('/topics', {method: 'POST', "
        "body: new URLSearchParams({name: 'own', partitions: '1'})})).status"
    )
    assert made == 200
