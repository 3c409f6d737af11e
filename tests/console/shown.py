"""Pages of a console for a test's broker, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from moldau.console.access import Access
from moldau.console.application import make_application
from moldau.console.connection import Connection
from moldau.runtime.real import RealClock


@asynccontextmanager
async def browser(
    bootstrap: str, access: Access | None = None, settings: Mapping[str, str] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the console; it follows redirects as a browser does."""
    allowed = Access(is_admin=True) if access is None else access
    connection = Connection({"bootstrap.servers": bootstrap, **(settings or {})}, RealClock())
    application = make_application(connection, RealClock(), ("console", "::1"), allowed)
    transport = httpx.ASGITransport(application)
    try:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://console", follow_redirects=True
        ) as client:
            yield client
    finally:
        await connection.aclose()
