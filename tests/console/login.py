"""A console with an OpenID Connect provider, and logins at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from moldau.console.access.oidc import Oidc, OidcClient
from moldau.console.access.roles import BY_CLAIM, Policy
from moldau.console.access.visitor import Access
from moldau.console.server import served
from moldau.link.http.protection import HttpProtection
from moldau.logging import Loggers
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.provider import CLIENT_ID, SECRET, Provider, provider
from tests.console.shown import use

PAGE = {"accept": "text/html"}


@asynccontextmanager
async def console(lines: list[str]) -> AsyncIterator[tuple[str, Provider, str]]:
    """A console with a provider; its address, the provider and the brokers."""
    async with (
        EmbeddedBroker() as broker,
        RealRuntime("console") as runtime,
        provider(runtime) as at,
    ):
        await use(broker.bootstrap_servers)
        loggers = Loggers(runtime.clock, lines.append, json=True)
        access = Access(
            audit=loggers.get("audit"),
            policy=Policy(BY_CLAIM),
            records_looks=True,
        )
        oidc = Oidc(OidcClient(at.issuer, CLIENT_ID, SECRET), runtime, loggers.get("logins"))
        by = HttpProtection(users={"tool": "rabbit"})
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        async with served(runtime, settings, ("127.0.0.1", 0), by, access, oidc) as address:
            yield address, at, broker.bootstrap_servers


async def to_provider(client: httpx2.AsyncClient, path: str = "/topics") -> str:
    """Ask for a page, and return the address at the provider."""
    sent = await client.get(path, headers=PAGE)
    assert sent.headers["location"].startswith("/login?back=")
    begun = await client.get(sent.headers["location"])
    assert begun.status_code == 303
    return begun.headers["location"]


async def log_in(client: httpx2.AsyncClient, user: str, path: str = "/topics") -> httpx2.Response:
    """Log in as a user; return the answer of the console to the browser that comes back."""
    asked = await to_provider(client, path)
    back = await client.get(f"{asked}&user={user}")
    return await client.get(back.headers["location"])
