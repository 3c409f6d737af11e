"""The console as an ASGI application: its routes, and what it says when something fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.console.connection import Connection
from moldau.console.pages import MISSING, Pages
from moldau.console.rendering import BadForm, Renderer, asset, check_host
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.runtime import Clock

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def make_application(
    connection: Connection, clock: Clock, hosts: Collection[str] | None = None
) -> Starlette:
    """Return the application. Its caller closes the connection. `hosts` are the only names by which
    browsers reach it; None allows all."""
    renderer = Renderer(connection.bootstrap)
    pages = Pages(connection, renderer, clock)

    def guarded(endpoint: Endpoint) -> Endpoint:
        async def run(request: Request) -> Response:
            if hosts is not None:
                check_host(request, hosts)
            try:
                return await endpoint(request)
            except BadForm as error:
                return renderer.failure(request, 400, "That does not work yet", str(error))
            except KafkaError as error:
                status = 404 if error.code in MISSING else 502
                title = "It is not there" if status == 404 else "The cluster refuses"
                return renderer.failure(request, status, title, str(error))
            except (MoldauError, ValueError) as error:
                return renderer.failure(request, 400, "That does not work", str(error))

        return run

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = str(error.detail)
        return renderer.failure(request, error.status_code, "There is no such page", text)

    table: list[tuple[str, str, Endpoint]] = [
        ("GET", "/", pages.cluster),
        ("GET", "/topics", pages.topics),
        ("POST", "/topics", pages.create_topic),
        ("GET", "/topics/{name}", pages.topic),
        ("GET", "/topics/{name}/settings", pages.settings),
        ("POST", "/topics/{name}/settings", pages.change_setting),
        ("GET", "/topics/{name}/messages", pages.messages),
        ("POST", "/topics/{name}/messages", pages.produce),
        ("GET", "/topics/{name}/tail", pages.tail),
        ("GET", "/groups", pages.groups),
        ("GET", "/groups/{name:path}/plan", pages.group),
        ("POST", "/groups/{name:path}/plan", pages.plan_offsets),
        ("POST", "/groups/{name:path}/offsets", pages.change_offsets),
        ("GET", "/groups/{name:path}", pages.group),
    ]
    routes = [Route(path, guarded(run), methods=[method]) for method, path, run in table]
    routes.append(Route("/static/{name}", asset))

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        yield
        await connection.aclose()

    return Starlette(
        routes=routes, exception_handlers={HTTPException: on_http_error}, lifespan=lifespan
    )
