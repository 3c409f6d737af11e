"""Pages of a console for a test's broker, without a socket."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import unescape
from typing import Any, Final

import httpx2

from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.console.access.visitor import Access
from moldau.console.apis.services import LinkedServices
from moldau.console.application import make_application
from moldau.console.connection import Connection
from moldau.link.http.protection import HttpProtection
from moldau.runtime.http_door import FORM, DoorRules, behind_door
from moldau.runtime.real import RealRuntime

EXACT: Final = "12345678901234567890"
"""More digits than a browser's numbers have."""


async def use(servers: str) -> None:
    """Make the topic `orders` with five records in its second partition, and the group `billing`,
    which has read two of them."""
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(NewTopic("orders", 2))
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(5):
            value = f'{{"id": {number}, "cents": {EXACT}}}'.encode()
            await producer.send_and_wait("orders", value, key=b"k", partition=1)
    async with Consumer(
        bootstrap_servers=servers, group_id="billing", enable_auto_commit=False
    ) as consumer:
        consumer.assign([("orders", 1)])
        await consumer.commit({("orders", 1): 2})


POLL: Final = re.compile(r'hx-get="(/topics/[^"/]*/search/[^"]*)"')
"""Where a page looks for what a search has found."""
RULES = DoorRules((FORM,), ("console",), has_sessions=True)
USERS = dict.fromkeys(("ann", "bob", "eve", "ivy", "zoe"), "-")


@asynccontextmanager
async def browser(
    bootstrap: str,
    access: Access | None = None,
    settings: Mapping[str, str] | None = None,
    registry: str | None = None,
    connect: str | None = None,
    services: LinkedServices | None = None,
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the console; it follows redirects as a browser does. Where roles are given, users
    log in with the password `-`."""
    allowed = Access(is_admin=True) if access is None else access
    async with RealRuntime("console") as runtime:
        given = {"bootstrap.servers": bootstrap, **(settings or {})}
        connection = Connection(given, runtime, registry, connect, services)
        application = make_application(connection, runtime.clock, allowed)
        has_roles = allowed.policy is not None and bool(allowed.policy.roles)
        gate = HttpProtection(users=USERS if has_roles else {}).guard(application)
        transport = httpx2.ASGITransport(behind_door(gate, RULES))
        try:
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://console", follow_redirects=True
            ) as client:
                yield client
        finally:
            await connection.aclose()


async def finished(
    client: httpx2.AsyncClient, page: httpx2.Response, auth: httpx2.BasicAuth | None = None
) -> httpx2.Response:
    """Look again as the page's script does, until the search has ended."""
    given: dict[str, Any] = {} if auth is None else {"auth": auth}
    while found := POLL.search(page.text):
        path = unescape(found[1]).partition("?")[0]
        page = await client.get(path, headers={"HX-Target": "progress"}, **given)
    return page
