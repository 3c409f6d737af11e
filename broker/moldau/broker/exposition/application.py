"""`/metrics`, `/history`, `/healthz` and `/readyz` as an ASGI application.

| path | 200 | 503 |
|-|-|-|
| /healthz | the process answers, and works | the node has failed: start it again |
| /readyz | clients are served | it starts, is fenced, or stops: send it no clients |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from moldau.broker.exposition.health import STARTING, Health, Observable
from moldau.broker.exposition.recent import Recent
from moldau.broker.exposition.scrape import Scraper, Turn
from moldau.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from moldau.runtime import Clock


class Figures(Protocol):
    """What the application serves: the figures of a node, or of all shards of a host."""

    async def health(self) -> Health: ...

    def metrics(self) -> AsyncIterator[bytes]:
        """Yield the page in pieces."""
        ...

    async def history(self, topic: str | None, group: str | None) -> dict[str, Any] | None:
        """Return the answer of `/history`; None while there is none."""
        ...


class NodeFigures:
    """The figures of the node in this process."""

    def __init__(
        self,
        clock: Clock,
        turn: Turn,
        node: Callable[[], Observable | None],
        recent: Recent | None = None,
    ) -> None:
        """`node` returns None until the node is started; `turn` is that of a `Scraper`; `recent` is
        filled by its owner."""
        self._scraper = Scraper(clock, turn)
        self._past = Recent(clock, turn) if recent is None else recent
        self._node = node

    async def health(self) -> Health:
        found = self._node()
        return STARTING if found is None else found.health()

    def metrics(self) -> AsyncIterator[bytes]:
        """Yield the page in pieces."""
        found = self._node()
        return self._scraper.scrape(None if found is None else found.observed())

    async def history(self, topic: str | None, group: str | None) -> dict[str, Any] | None:
        """Return what the ring of the last quarter of an hour has."""
        found = self._node()
        return None if found is None else self._past.answer(found.observed(), topic, group)


def make_application(
    clock: Clock,
    turn: Turn,
    node: Callable[[], Observable | None],
    recent: Recent | None = None,
) -> Starlette:
    """Return the application of one node; see `NodeFigures`."""
    return application_of(NodeFigures(clock, turn, node, recent))


def application_of(figures: Figures) -> Starlette:
    """Return the application that serves these figures."""

    async def metrics(request: Request) -> Response:
        return StreamingResponse(figures.metrics(), media_type=CONTENT_TYPE)

    async def history(request: Request) -> Response:
        query = request.query_params
        answer = await figures.history(query.get("topic"), query.get("group"))
        if answer is None:
            return PlainTextResponse(f"{STARTING.text}\n", 503)
        return JSONResponse(answer)

    async def healthz(request: Request) -> Response:
        now = await figures.health()
        return PlainTextResponse(f"{now.text}\n", 200 if now.is_alive else 503)

    async def readyz(request: Request) -> Response:
        now = await figures.health()
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
