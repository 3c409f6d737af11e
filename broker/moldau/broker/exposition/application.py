"""`/metrics`, `/history`, `/healthz` and `/readyz` as an ASGI application.

| path | 200 | 503 |
|-|-|-|
| /healthz | the process answers, and works | the node has failed: start it again |
| /readyz | clients are served | it starts, is fenced, or stops: send it no clients |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from moldau.broker.exposition.recent import Recent
from moldau.broker.exposition.scrape import ScrapedNode, Scraper, Turn
from moldau.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from moldau.runtime import Clock


class Health(NamedTuple):
    """Whether the node works, whether it serves clients, and what to say about it."""

    is_alive: bool
    is_ready: bool
    text: str


class Observable(Protocol):
    """A node that is started."""

    def health(self) -> Health: ...

    def observed(self) -> ScrapedNode: ...


class Observer(Protocol):
    """What tells others about a node."""

    def watch(self, node: Observable) -> None:
        """Begin: the node is started."""
        ...


STARTING = Health(is_alive=True, is_ready=False, text="starting")


def make_application(
    clock: Clock,
    turn: Turn,
    node: Callable[[], Observable | None],
    recent: Recent | None = None,
) -> Starlette:
    """Return the application. `node` returns None until the node is started; `turn` is that of a
    `Scraper`; `recent` is filled by its owner."""
    scraper = Scraper(clock, turn)
    past = Recent(clock, turn) if recent is None else recent

    def health() -> Health:
        found = node()
        return STARTING if found is None else found.health()

    async def metrics(request: Request) -> Response:
        found = node()
        pieces = scraper.scrape(None if found is None else found.observed())
        return StreamingResponse(pieces, media_type=CONTENT_TYPE)

    async def history(request: Request) -> Response:
        found, query = node(), request.query_params
        if found is None:
            return PlainTextResponse(f"{STARTING.text}\n", 503)
        answer = past.answer(found.observed(), query.get("topic"), query.get("group"))
        return JSONResponse(answer)

    async def healthz(request: Request) -> Response:
        now = health()
        return PlainTextResponse(f"{now.text}\n", 200 if now.is_alive else 503)

    async def readyz(request: Request) -> Response:
        now = health()
        return PlainTextResponse(f"{now.text}\n", 200 if now.is_ready else 503)

    async def index(request: Request) -> Response:
        return PlainTextResponse("/metrics /history /healthz /readyz\n")

    return Starlette(
        routes=[
            Route("/", index),
            Route("/metrics", metrics),
            Route("/history", history),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ]
    )
