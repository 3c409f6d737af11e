"""Serves the console until its process ends: `moldau console`, and within `moldau dev`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from moldau.cli.commands.registry_place import URL
from moldau.console.access import Access
from moldau.console.application import make_application
from moldau.console.command import LOCAL
from moldau.console.connection import Connection
from moldau.link.http_protection import HttpProtection
from moldau.runtime.http_server import HttpServer

if TYPE_CHECKING:
    from moldau.runtime import Runtime


@asynccontextmanager
async def served(
    runtime: Runtime,
    settings: Mapping[str, str],
    listen: tuple[str, int],
    protection: HttpProtection | None = None,
    access: Access | None = None,
) -> AsyncIterator[str]:
    """Serve the console of a cluster, and yield its address. Raise CannotListen.

    The setting `schema.registry.url` names the registry by which records are decoded.
    Without `access`, visitors may change the cluster, and there is no audit log.
    On a local address, only a browser that calls it by a local name is served.
    """
    given = dict(settings)
    connection = Connection(given, runtime.clock, given.pop(URL, None))
    server = HttpServer(runtime, "the console", "choose another address")
    try:
        host, port = server.bind(*listen)
        hosts = LOCAL if listen[0] in LOCAL else None
        by = HttpProtection() if protection is None else protection
        allowed = Access(is_admin=True) if access is None else access
        allowed = replace(allowed, asks_login=by.asks_login)
        application = by.guard(make_application(connection, runtime.clock, hosts, allowed))
        await server.start(application, by.context)
        yield f"{by.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        await server.aclose()
        await connection.aclose()
