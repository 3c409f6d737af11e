"""The console as an ASGI application: its routes, and what it says when something fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.client.serdes.registry.schemas import RegistryError
from moldau.console.access.logins import LoginPages, Logins
from moldau.console.access.roles import Policy, Role
from moldau.console.access.routes import (
    NotAllowed,
    Row,
    ask,
    change,
    check_role,
    check_topic,
    look,
    messages,
    needs_of,
)
from moldau.console.access.visitor import BROKEN_OFF, Access
from moldau.console.apis.rest import Refused
from moldau.console.connection import Connection
from moldau.console.pages.brokers import Brokers
from moldau.console.pages.charts import Charts
from moldau.console.pages.cluster import Pages
from moldau.console.pages.connector_form import ConnectorForms
from moldau.console.pages.connectors import Connectors
from moldau.console.pages.dead_letters import DeadLetters
from moldau.console.pages.groups import Groups
from moldau.console.pages.health import HEALTH, alive
from moldau.console.pages.messages import MessagePages
from moldau.console.pages.pipelines import Pipelines
from moldau.console.pages.rendering import BadForm, Renderer, asset
from moldau.console.pages.rights import Rights
from moldau.console.pages.risks import Risks
from moldau.console.pages.schemas import Schemas
from moldau.console.pages.streams import Streams
from moldau.console.pages.topic_changes import TopicChanges
from moldau.console.pages.topic_readers import TopicReaders
from moldau.console.pages.transactions import Transactions
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Clock

if TYPE_CHECKING:
    from moldau.console.access.routes import Endpoint

READ_ONLY: Final = (
    "Start it with --admin to change the cluster by its pages; inside a broker that is "
    "moldau.console.admin=true."
)
FAILED: Final = 500
MISSING: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    )
)
"""The errors that mean: what the page is about does not exist."""
SILENT: Final = frozenset(
    (
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
"""The errors that mean: no broker has answered, or not in time."""
UNFIT: Final = frozenset(
    (
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    )
)
"""The errors that mean: the cluster works, and what a form says does not fit it."""
_REFUSALS: Final = {
    403: ("That is not allowed", ""),
    404: ("There is no such page", "No page has this address."),
    405: (
        "There is no such page",
        "This address only takes a form: go back to the page that has the form.",
    ),
}
"""The heading, and the text if the error has none for users, of what no page answers."""


class Guard:
    """Lets requests in by the table of routes, records changes and looks at messages, and makes a
    page of an error."""

    def __init__(self, renderer: Renderer, access: Access) -> None:
        self._renderer = renderer
        self._access = access

    def door(self, row: Row) -> Endpoint:
        """Return the endpoint of a row, for visitors that the row lets in."""

        async def run(request: Request) -> Response:
            self._access.visitor(request)
            status = BROKEN_OFF  # the console ends, or has a bug
            try:
                answer = await self._answer(row, request)
                status = answer.status_code
            finally:
                self._access.record(request, row, status)
            return answer

        return run

    async def _answer(self, row: Row, request: Request) -> Response:
        failure = self._renderer.failure
        try:
            check_role(request, row)
            if row.has_messages:
                check_topic(request, request.path_params["name"])
            return await row.run(request)
        except NotAllowed as error:
            if self._access.policy is None:
                return failure(request, 403, "This console is read-only", READ_ONLY)
            return failure(request, 403, "That is not allowed", str(error))
        except BadForm as error:
            return failure(request, 400, "Something in the form does not fit", str(error))
        except KafkaError as error:
            status = 404 if error.code in MISSING else 400 if error.code in UNFIT else 502
            title = "It is not there" if status == 404 else "The cluster refuses"
            if error.code in SILENT:
                title = "The cluster does not answer"
            return failure(request, status, title, str(error))
        except RegistryError as error:
            status = 404 if error.is_of_record else 502
            refused = "The registry refuses" if error.status else "The registry does not answer"
            title = "It is not there" if status == 404 else refused
            return failure(request, status, title, str(error))
        except Refused as error:
            status = 404 if error.is_missing else 502
            refused = error.title if error.status else error.silent_title
            title = "It is not there" if error.is_missing else refused
            return failure(request, status, title, str(error))
        except (MoldauError, ValueError) as error:
            return failure(request, 400, "That does not work", str(error))


def _of_connect(connection: Connection, renderer: Renderer, policy: Policy | None) -> list[Row]:
    """Return the rows about connectors. One can copy what its worker reads to where it is seen."""
    connectors = Connectors(connection, renderer)
    forms = ConnectorForms(connection, renderer)
    operator = Role.OPERATOR
    maker = Role.ADMIN if policy is not None and policy.hides_messages else operator
    return [
        look("/connectors", connectors.list),
        look("/connectors/{name:path}", connectors.connector),
        change("/connectors/{name:path}", connectors.act, "steer a connector", operator),
        look("/new-connector", forms.new, maker),
        change("/new-connector", forms.make, "make a connector", maker),
        look("/change-connector/{name:path}", forms.edit, maker),
        change("/change-connector/{name:path}", forms.change, "change a connector", maker),
    ]


def _of_dead_letters(connection: Connection, renderer: Renderer, clock: Clock) -> list[Row]:
    letters = DeadLetters(connection, renderer, clock)
    one, role = "/dead-letters/{name:path}", Role.OPERATOR
    return [
        ask(f"{one}/plan", letters.plan, "preview a replay of dead letters"),
        change(f"{one}/replay", letters.replay, "replay dead letters", role),
        Row("GET", one, letters.list, action="read dead letters"),
    ]


def _of_topics(pages: Pages, records: MessagePages) -> list[Row]:
    one, operator, admin = "/topics/{name}", Role.OPERATOR, Role.ADMIN
    return [
        look("/topics", pages.topics),
        change("/topics", pages.create_topic, "create a topic", operator),
        look(one, pages.topic),
        change(f"{one}/delete", pages.delete_topic, "delete a topic", admin),
        change(f"{one}/partitions", pages.add_partitions, "add partitions", operator),
        look(f"{one}/tiers", pages.tiers),
        look(f"{one}/settings", pages.settings),
        change(f"{one}/settings", pages.change_setting, "set a topic's setting", operator),
        messages(f"{one}/messages", records.messages, "read messages"),
        change(f"{one}/messages", records.produce, "produce a record", operator, has_messages=True),
        messages(f"{one}/tail", records.tail, "follow messages"),
        messages(f"{one}/download", records.download, "download messages"),
        Row("GET", f"{one}/search/{{key}}", records.search, has_messages=True),
        Row("POST", f"{one}/search/{{key}}/stop", records.stop, has_messages=True, is_look=True),
    ]


def _of_groups(groups: Groups) -> list[Row]:
    one = "/groups/{name:path}"
    return [
        look("/groups", groups.all),
        look(f"{one}/plan", groups.group),
        ask(f"{one}/plan", groups.plan_offsets),
        change(f"{one}/offsets", groups.change_offsets, "change offsets", Role.OPERATOR),
        change(f"{one}/delete", groups.delete, "delete a group", Role.ADMIN),
        look(one, groups.group),
    ]


def _of_apps(connection: Connection, renderer: Renderer, clock: Clock) -> list[Row]:
    streams = Streams(connection, renderer, clock)
    pipelines = Pipelines(connection, renderer)
    return [
        look("/streams", streams.list),
        look("/streams/{name}", streams.app),
        look("/streams/{name}/live", streams.live),
        Row("GET", "/streams/{name}/stores/{store:path}", streams.store, action="read a store"),
        look("/pipelines", pipelines.list),
        look("/pipelines/{name}", pipelines.pipeline),
        look("/pipelines/{name}/live", pipelines.live),
    ]


def _of_schemas(connection: Connection, renderer: Renderer) -> list[Row]:
    schemas = Schemas(connection, renderer)
    one, operator, admin = "/schemas/{name:path}", Role.OPERATOR, Role.ADMIN
    level, register, delete = "change a compatibility level", "register a schema", "delete a schema"
    return [
        look("/schemas", schemas.all),
        look("/new-schema", schemas.new, operator),
        Row("POST", "/new-schema/plan", schemas.plan_new, operator, is_look=True),
        change("/new-schema", schemas.register_new, register, operator),
        Row("POST", "/schema-level/plan", schemas.plan_level, operator, is_look=True),
        change("/schema-level", schemas.set_level, level, operator),
        ask(f"{one}/check", schemas.check),
        change(f"{one}/versions", schemas.register, register, operator),
        Row("POST", f"{one}/deletion", schemas.plan_deletion, admin, is_look=True),
        change(f"{one}/delete", schemas.delete, delete, admin),
        look(one, schemas.subject),
    ]


def _error_pages(
    renderer: Renderer, access: Access
) -> dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    """Return the functions that answer where no page does."""

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        access.visitor(request)
        title, text = _REFUSALS.get(error.status_code, ("The console refuses", ""))
        return renderer.failure(request, error.status_code, title, text or str(error.detail))

    async def on_failure(request: Request, error: Exception) -> Response:
        """Return the page of a bug. Starlette raises the error on, so that the log has it."""
        access.visitor(request)
        text = (
            f"This is an error of the console ({type(error).__name__}); its log has all of it. A "
            "change that you asked for may be made or not: look before you ask again."
        )
        return renderer.failure(request, FAILED, "The console failed", text)

    return {HTTPException: on_http_error, Exception: on_failure}


def make_application(
    connection: Connection,
    clock: Clock,
    access: Access | None = None,
    logins: Logins | None = None,
    names: Sequence[str] = (),
) -> Starlette:
    """Return the application. Its caller closes the connection. Without `access`, it is read-only.
    With `logins` no page is for a browser that has not logged in. `names` are those of the
    clusters, if there are several."""
    access = Access() if access is None else access
    renderer = Renderer(connection.bootstrap, logins is not None, connection.name, names)
    guard = Guard(renderer, access)
    charts = Charts(connection, renderer, clock)
    pages = Pages(connection, renderer, charts)
    transactions = Transactions(connection, renderer, clock)

    table = [
        look("/", pages.cluster),
        *charts.rows(),
        look("/brokers/{id}", Brokers(connection, renderer, charts).broker),
        look("/risks", Risks(connection, renderer).list),
        look("/topics/{name}/readers", TopicReaders(connection, renderer).readers),
        *_of_topics(pages, MessagePages(connection, renderer)),
        *TopicChanges(connection, renderer).rows(),
        *_of_groups(Groups(connection, renderer, clock, charts)),
        *_of_connect(connection, renderer, access.policy),
        *_of_dead_letters(connection, renderer, clock),
        *_of_apps(connection, renderer, clock),
        *_of_schemas(connection, renderer),
        *Rights(connection, renderer).rows(),
        look("/transactions", transactions.list),
        change(
            "/transactions/abort/{name:path}",
            transactions.abort,
            "abort a transaction",
            Role.ADMIN,
        ),
        change(
            "/transactions/hanging/{name:path}",
            transactions.abort_hanging,
            "end a hanging transaction",
            Role.ADMIN,
        ),
    ]
    renderer.needs = needs_of(table)
    routes = [Route(row.path, guard.door(row), methods=[row.method]) for row in table]
    routes += [Route("/static/{name}", asset), Route(HEALTH, alive)]
    gates = []
    if logins is not None:
        login_pages = LoginPages(logins, renderer, access)
        routes += login_pages.routes()
        gates.append(Middleware(login_pages.gate))

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        yield
        await connection.aclose()

    return Starlette(
        routes=routes,
        exception_handlers=_error_pages(renderer, access),
        lifespan=lifespan,
        middleware=gates,
    )
