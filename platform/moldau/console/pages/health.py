"""`/healthz`: whether the console serves. A supervisor asks it without a login, so it tells nothing
of the cluster; one that cannot be reached is no failure of the console: its pages say so."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

HEALTH: Final = "/healthz"


async def alive(request: Request) -> Response:
    """Answer that the process works."""
    return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})


def is_probe(method: str, path: str) -> bool:
    """Whether a request is this question, which needs no login."""
    return method in ("GET", "HEAD") and path == HEALTH
