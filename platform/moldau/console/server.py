"""Serves the console until its process ends: `moldau console`, and within `moldau dev`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from moldau.cli.commands.registry_place import URL
from moldau.console.access.logins import Logins
from moldau.console.access.visitor import OWN, Access, proven_by
from moldau.console.apis.connect import CONNECT
from moldau.console.apis.services import PIPELINES, STREAMS, LinkedServices
from moldau.console.application import make_application
from moldau.console.clusters import Clusters
from moldau.console.connection import Connection
from moldau.console.pages.health import is_probe
from moldau.console.pages.rendering import FORM_BYTES_MAX
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.link.http.protection import HttpProtection
from moldau.runtime.http_door import FORM, DoorRules
from moldau.runtime.http_server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Scope

    from moldau.console.access.oidc import Oidc
    from moldau.console.access.roles import Login
    from moldau.console.refresher import LocalTopics
    from moldau.runtime import Runtime
    from moldau.runtime.http_door import DoorRefusal

    Prove: TypeAlias = Callable[[Request], Login | None]

PAGES: Final = ("/", "/topics", "/groups", "/transactions")
_NONE: Final = "none"
"""Stands for a topic or a group where there is none: that page loads most of it as well."""


@asynccontextmanager
async def served(
    runtime: Runtime,
    settings: Mapping[str, str],
    listen: tuple[str, int],
    protection: HttpProtection | None = None,
    access: Access | None = None,
    oidc: Oidc | None = None,
) -> AsyncIterator[str]:
    """Serve the console of a cluster, and yield its address. Raise CannotListen.

    The setting `schema.registry.url` names the registry by which records are decoded, and
    `connect.url` a Connect worker, `streams.urls` apps, `pipeline.urls` pipelines.
    Without `access`, visitors may change the cluster, and there is no audit log.
    With `oidc` browsers
    log in at its provider; a password or a token of the protection counts beside it.
    """
    connection = connection_of(runtime, settings)
    async with serving(runtime, connection, listen, protection, access, oidc) as address:
        yield address


def connection_of(
    runtime: Runtime, settings: Mapping[str, str], topics: LocalTopics | None = None
) -> Connection:
    """Return a connection for these settings, as `served` takes them; `topics` is for a
    `Refresher`. Raise ConfigError."""
    given = dict(settings)
    services = LinkedServices.of(runtime, given.pop(STREAMS, ""), given.pop(PIPELINES, ""))
    places = given.pop(URL, None), given.pop(CONNECT, None)
    return Connection(given, runtime, *places, services, topics)


@asynccontextmanager
async def serving(
    runtime: Runtime,
    connection: Connection,
    listen: tuple[str, int],
    protection: HttpProtection | None = None,
    access: Access | None = None,
    oidc: Oidc | None = None,
) -> AsyncIterator[str]:
    """Serve the console of a connection as `served` does, and close it at the end."""
    by = HttpProtection() if protection is None else protection
    one = ConsoleCluster(connection, Access(is_admin=True) if access is None else access, oidc)
    async with serving_all(runtime, {"": one}, listen, by) as address:
        yield address


@dataclass(frozen=True, slots=True)
class ConsoleCluster:
    """A cluster of a console, and its visitors."""

    connection: Connection
    access: Access
    oidc: Oidc | None = None


@asynccontextmanager
async def serving_all(
    runtime: Runtime,
    shown: Mapping[str, ConsoleCluster],
    listen: tuple[str, int],
    by: HttpProtection,
) -> AsyncIterator[str]:
    """Serve clusters by their names, or one without a name, and close their connections at the
    end. Either all have a provider of logins or none."""
    server = HttpServer(runtime, "the console", "choose another address")
    warming: list[asyncio.Task[None]] = []
    first = next(iter(shown.values()))
    try:
        host, port = server.bind(*listen)
        applications: dict[str, ASGIApp] = {}
        names = list(shown) if "" not in shown else []
        proofs: dict[str, Prove] = {}
        for name, each in shown.items():
            each.connection.name = name
            logins = None if each.oidc is None else Logins(each.oidc, by, runtime)
            proofs[name] = proven_by(by) if logins is None else logins.login
            made = make_application(each.connection, runtime.clock, each.access, logins, names)
            applications[name] = by.guard(made, is_probe) if logins is None else made
            warming.append(runtime.spawn(warm(made, each.connection), name="warm the console up"))
        front = Clusters(applications)
        gate = front if names else applications[""]

        def on_refusal(scope: Scope, refusal: DoorRefusal) -> None:
            name = front.name_in(scope["path"])
            shown[name].access.record_refusal(proofs[name], scope, refusal)

        await server.start(gate, _rules(by, first.oidc), by.context, on_refusal)
        yield f"{by.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        for each in shown.values():
            each.connection.is_ending = True
        for task in warming:
            task.cancel()
        if warming:
            await asyncio.wait(warming)
        await server.aclose()
        for each in shown.values():
            await each.connection.aclose()


def _rules(by: HttpProtection, oidc: Oidc | None) -> DoorRules:
    """Return the rules of the door. Browsers come back from a login to an address that is given."""
    redirect = "" if oidc is None else oidc.client.redirect_uri or ""
    own = urlsplit(redirect).hostname
    rules = replace(by.rules((FORM,)), has_sessions=True, body_bytes_max=FORM_BYTES_MAX)
    return rules if own is None else replace(rules, allowed=(*rules.allowed, own))


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
