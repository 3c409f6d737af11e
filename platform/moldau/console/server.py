"""Serves the console until its process ends: `moldau console`, and within `moldau dev`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from moldau.cli.commands.registry_place import URL
from moldau.console.access import Access
from moldau.console.application import make_application
from moldau.console.beside import PIPELINES, STREAMS, Beside
from moldau.console.connect_api import CONNECT
from moldau.console.connection import Connection
from moldau.console.health import is_probe
from moldau.console.logins import Logins
from moldau.console.options import LOCAL
from moldau.console.warming import warm
from moldau.link.http_protection import HttpProtection
from moldau.runtime.http_server import HttpServer

if TYPE_CHECKING:
    from moldau.console.oidc import Oidc
    from moldau.console.refresher import LocalTopics
    from moldau.runtime import Runtime


@asynccontextmanager
async def served(
    runtime: Runtime,
    settings: Mapping[str, str],
    listen: tuple[str, int],
    protection: HttpProtection | None = None,
    access: Access | None = None,
    oidc: Oidc | None = None,
) -> AsyncIterator[str]:
    """Serve the console of a cluster, and yield its address. Raise CannotListen.

    The setting `schema.registry.url` names the registry by which records are decoded, and
    `connect.url` a Connect worker, `streams.urls` apps, `pipeline.urls` pipelines.
    Without `access`, visitors may change the cluster, and there is no audit log.
    On a local address, only a browser that calls it by a local name is served. With `oidc` browsers
    log in at its provider; a password or a token of the protection counts beside it.
    """
    connection = connection_of(runtime, settings)
    async with serving(runtime, connection, listen, protection, access, oidc) as address:
        yield address


def connection_of(
    runtime: Runtime, settings: Mapping[str, str], topics: LocalTopics | None = None
) -> Connection:
    """Return a connection for these settings, as `served` takes them; `topics` is for a
    `Refresher`. Raise ConfigError."""
    given = dict(settings)
    beside = Beside.of(given.pop(STREAMS, ""), given.pop(PIPELINES, ""))
    places = given.pop(URL, None), given.pop(CONNECT, None)
    return Connection(given, runtime, *places, beside, topics)


@asynccontextmanager
async def serving(
    runtime: Runtime,
    connection: Connection,
    listen: tuple[str, int],
    protection: HttpProtection | None = None,
    access: Access | None = None,
    oidc: Oidc | None = None,
) -> AsyncIterator[str]:
    """Serve the console of a connection as `served` does, and close it at the end."""
    server = HttpServer(runtime, "the console", "choose another address")
    warming: asyncio.Task[None] | None = None
    try:
        host, port = server.bind(*listen)
        hosts = LOCAL if listen[0] in LOCAL else None
        by = HttpProtection() if protection is None else protection
        allowed = Access(is_admin=True) if access is None else access
        logins = None if oidc is None else Logins(oidc, by, runtime)
        application = make_application(connection, runtime.clock, hosts, allowed, logins)
        gate = by.guard(application, is_probe) if logins is None else application
        await server.start(gate, by.context)
        warming = runtime.spawn(warm(application, connection), name="warm the console up")
        yield f"{by.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        connection.is_ending = True
        if warming is not None:
            warming.cancel()
            await asyncio.wait([warming])
        await server.aclose()
        await connection.aclose()
