"""The console as an ASGI application: its routes, and what it says when something fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.client.serdes.registry.schemas import RegistryError
from moldau.console.access import Access
from moldau.console.changes import Changes
from moldau.console.connect_api import ConnectRefused
from moldau.console.connection import Connection
from moldau.console.connector_form import ConnectorForms
from moldau.console.connectors import Connectors
from moldau.console.pages import MISSING, Pages
from moldau.console.rendering import BadForm, Renderer, asset, check_host
from moldau.console.rights import Rights
from moldau.console.schemas import Schemas
from moldau.console.transactions import Transactions
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.runtime import Clock

READ_ONLY: Final = "Start it with --admin to change the cluster by its pages."
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class Guard:
    """Lets requests in, records changes, and makes a page of an error."""

    def __init__(self, renderer: Renderer, hosts: Collection[str] | None, access: Access) -> None:
        self._renderer = renderer
        self._hosts = hosts
        self._access = access

    def reading(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint that changes nothing."""

        async def run(request: Request) -> Response:
            if self._hosts is not None:
                check_host(request, self._hosts)
            failure = self._renderer.failure
            try:
                return await endpoint(request)
            except BadForm as error:
                return failure(request, 400, "That does not work yet", str(error))
            except KafkaError as error:
                status = 404 if error.code in MISSING else 502
                title = "It is not there" if status == 404 else "The cluster refuses"
                return failure(request, status, title, str(error))
            except RegistryError as error:
                status = 404 if error.is_of_record else 502
                title = "It is not there" if status == 404 else "The registry refuses"
                return failure(request, status, title, str(error))
            except ConnectRefused as error:
                status = 404 if error.is_missing else 502
                title = "It is not there" if error.is_missing else "Connect refuses"
                return failure(request, status, title, str(error))
            except (MoldauError, ValueError) as error:
                return failure(request, 400, "That does not work", str(error))

        return run

    def changing(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint for visitors that may change the cluster."""
        run = self.reading(endpoint)

        async def change(request: Request) -> Response:
            if not self._access.is_admin:
                title = "This console is read-only"
                answer = self._renderer.failure(request, 403, title, READ_ONLY)
            else:
                try:
                    answer = await run(request)
                except HTTPException as error:  # a form of another site
                    self._access.record(request, error.status_code)
                    raise
            self._access.record(request, answer.status_code)
            return answer

        return change


def _of_connect(connection: Connection, renderer: Renderer) -> list[tuple[str, str, Endpoint]]:
    connectors = Connectors(connection, renderer)
    forms = ConnectorForms(connection, renderer)
    return [
        ("GET", "/connectors", connectors.list),
        ("GET", "/connectors/{name:path}", connectors.connector),
        ("POST", "/connectors/{name:path}", connectors.act),
        ("GET", "/new-connector", forms.new),
        ("POST", "/new-connector", forms.make),
        ("GET", "/change-connector/{name:path}", forms.edit),
        ("POST", "/change-connector/{name:path}", forms.change),
    ]


def make_application(
    connection: Connection,
    clock: Clock,
    hosts: Collection[str] | None = None,
    access: Access | None = None,
) -> Starlette:
    """Return the application. Its caller closes the connection. `hosts` are the only names by which
    browsers reach it; None allows all. Without `access`, it is read-only."""
    access = Access() if access is None else access
    renderer = Renderer(connection.bootstrap, access.is_admin)
    changes = Changes(connection)
    guard = Guard(renderer, hosts, access)
    pages = Pages(connection, renderer, clock)
    transactions = Transactions(connection, renderer, clock)
    rights = Rights(connection, renderer)
    schemas = Schemas(connection, renderer)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = str(error.detail)
        return renderer.failure(request, error.status_code, "There is no such page", text)

    table: list[tuple[str, str, Endpoint]] = [
        ("GET", "/", pages.cluster),
        ("GET", "/topics", pages.topics),
        ("POST", "/topics", pages.create_topic),
        ("GET", "/topics/{name}", pages.topic),
        ("POST", "/topics/{name}/delete", changes.delete_topic),
        ("POST", "/topics/{name}/partitions", changes.add_partitions),
        ("GET", "/topics/{name}/settings", pages.settings),
        ("POST", "/topics/{name}/settings", pages.change_setting),
        ("GET", "/topics/{name}/messages", pages.messages),
        ("POST", "/topics/{name}/messages", pages.produce),
        ("GET", "/topics/{name}/tail", pages.tail),
        ("GET", "/groups", pages.groups),
        ("GET", "/groups/{name:path}/plan", pages.group),
        ("GET", "/groups/{name:path}/lag", pages.lag),
        ("POST", "/groups/{name:path}/offsets", pages.change_offsets),
        ("POST", "/groups/{name:path}/delete", changes.delete_group),
        ("GET", "/groups/{name:path}", pages.group),
        *_of_connect(connection, renderer),
        ("GET", "/schemas", schemas.list),
        ("GET", "/schemas/{name:path}", schemas.subject),
        ("GET", "/rights", rights.show),
        ("GET", "/transactions", transactions.list),
        ("POST", "/transactions/abort/{name:path}", transactions.abort),
        ("POST", "/transactions/hanging/{name:path}", transactions.abort_hanging),
    ]
    doors = {"GET": guard.reading, "POST": guard.changing}
    routes = [Route(path, doors[method](run), methods=[method]) for method, path, run in table]
    harmless = {
        "/groups/{name:path}/plan": pages.plan_offsets,
        "/schemas/{name:path}/check": schemas.check,
    }
    for path, run in harmless.items():  # forms that change nothing
        routes.insert(0, Route(path, guard.reading(run), methods=["POST"]))
    routes.append(Route("/static/{name}", asset))

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        yield
        await connection.aclose()

    return Starlette(
        routes=routes, exception_handlers={HTTPException: on_http_error}, lifespan=lifespan
    )
