"""Several clusters in one console: each has an application of its own, below /c/NAME/.

The application of a cluster knows nothing of the others: the front takes its prefix from the path
of a request, and puts it before the addresses to which an answer sends the browser. Pages get it
from their `Renderer`. So sessions, roles and masks are those of one cluster.

Invariant: a request reaches the application of the cluster in its path alone. One without a cluster
is sent to the first; style sheets and health are the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import RedirectResponse

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOLDER: Final = "/c/"
PREFIX: Final = "prefix"
"""In the state of a request: what stands before the path of its cluster."""
_SHARED: Final = ("/static/", "/healthz")
_SENT: Final = (b"location", b"hx-redirect")
_ADDRESS: Final = re.compile(r'(\s(?:href|src|action|formaction|hx-get|hx-post|data-tail)=")/(?!/)')
_SEE_OTHER: Final = 303


def prefix_of(name: str) -> str:
    """Return what stands before the paths of a cluster."""
    return f"{FOLDER}{quote(name, safe='')}"


def path_of(request: Request) -> str:
    """Return the path of a request as the browser asked for it."""
    prefix: str = getattr(request.state, PREFIX, "")
    return f"{prefix}{request.scope['path']}"


def prefixed(page: str, prefix: str) -> str:
    """Return a page whose addresses lead to a cluster. What is written in a page has its quotes
    escaped, so it is never taken for an address."""
    if not prefix:
        return page

    def address(found: re.Match[str]) -> str:
        is_shared = page.startswith((*_SHARED, FOLDER), found.end() - 1)
        return found[0] if is_shared else f"{found[1]}{prefix}/"

    return _ADDRESS.sub(address, page)


class Clusters:
    """The ASGI application in front of those of the clusters."""

    def __init__(self, applications: Mapping[str, ASGIApp]) -> None:
        """Take applications by the names of the clusters; the first one has what is shared."""
        self._applications = applications
        self._first = next(iter(applications))

    def name_in(self, path: str) -> str:
        """Return the cluster that a path names, the first one if it names none."""
        name = path.removeprefix(FOLDER).partition("/")[0] if path.startswith(FOLDER) else ""
        return name if name in self._applications else self._first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else _SHARED[0]
        name = self.name_in(path)
        application, prefix = self._applications[name], prefix_of(name)
        rest = path.removeprefix(f"{FOLDER}{name}")
        if path.startswith(_SHARED):
            await application(scope, receive, send)
        elif rest == path and path.startswith(FOLDER):  # there is no such cluster
            await application(_within(scope, prefix, path), receive, _sending(send, prefix))
        elif rest.startswith("/") and rest != path:
            await application(_within(scope, prefix, rest), receive, _sending(send, prefix))
        else:
            query = scope.get("query_string", b"").decode("latin-1")
            to = f"{prefix}{quote(path if rest == path else '/')}{f'?{query}' if query else ''}"
            await RedirectResponse(to, _SEE_OTHER)(scope, receive, send)


def _within(scope: Scope, prefix: str, path: str) -> dict[str, Any]:
    state = {**scope.get("state", {}), PREFIX: prefix}
    return {**scope, "path": path, "raw_path": quote(path).encode(), "state": state}


def _sending(send: Send, prefix: str) -> Send:
    async def to_cluster(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (name, prefix.encode() + value if _is_inner(name, value) else value)
                for name, value in message["headers"]
            ]
            message = {**message, "headers": headers}
        await send(message)

    return to_cluster


def _is_inner(name: bytes, value: bytes) -> bool:
    return name.lower() in _SENT and value.startswith(b"/") and not value.startswith(b"//")
