"""Looks at each page once before the first visitor does: code, templates, connections and lists are
loaded then, so that no page waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from moldau.console.access import OWN
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

    from moldau.console.connection import Connection

PAGES: Final = ("/", "/topics", "/groups", "/transactions")
_NONE: Final = "none"
"""Stands for a topic or a group where there is none: that page loads most of it as well."""


async def warm(application: ASGIApp, connection: Connection) -> None:
    """Look at the pages. A cluster that cannot be reached is no failure here."""
    try:
        listed = await connection.lists.topics()
    except MoldauError:
        return
    topic = f"/topics/{listed.topics[0].name if listed.topics else _NONE}"
    group = f"/groups/{listed.groups[0].group_id if listed.groups else _NONE}"
    for path in (*PAGES, topic, f"{topic}/messages", f"{topic}/settings", group):
        await visit(application, path)


async def visit(application: ASGIApp, path: str) -> int:
    """Ask for a page in this process. Return its status."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": None,
        "server": None,
        "state": {"visitor": OWN},
    }
    status = 0

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    await application(scope, receive, send)
    return status
