"""Every HTTP server of the house at once, with the routes that its own tables have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from moldau.broker.exposition.server import MetricsServer, Sampled
from moldau.connect.server import ConnectWorker, WorkerLocation
from moldau.console.server import served
from moldau.link.http.protection import HttpProtection
from moldau.logging import Loggers
from moldau.pipeline.publishing import PATH, StatusAddress, StatusServer, StatusService
from moldau.registry.application import Api as RegistryApi
from moldau.registry.server import Options, SchemaRegistryServer
from moldau.runtime import Runtime
from moldau.runtime.http_server import HttpServer
from moldau.streams.query.api import Api as QueryApi
from moldau.streams.query.http import Answer, Request
from moldau.streams.query.server import QueryServer
from moldau.streams.query.watch import WatchPages
from moldau.testing import EmbeddedBroker
from tests.console.pipeline_stub import Looks
from tests.pipeline.files import pipeline

HOST: Final = "127.0.0.1"
LOCAL: Final = (HOST, 0)


@dataclass(slots=True)
class Server:
    """A running server: the module that starts it, its address and its routes."""

    module: str
    address: str
    routes: list[tuple[str, str]]

    @property
    def port(self) -> int:
        found = urlsplit(self.address).port
        assert found is not None
        return found


@dataclass(slots=True)
class Records:
    """The applications of the servers, in the order in which they were started."""

    applications: list[Any] = field(default_factory=list)

    def last(self, module: str, address: str) -> Server:
        return Server(module, address, routes_of(self.applications[-1]))


@contextmanager
def recorded() -> Iterator[Records]:
    """Record the application of each server that is started."""
    found, start = Records(), HttpServer.start

    async def recording(self: HttpServer, application: Any, *more: Any) -> None:
        found.applications.append(application)
        await start(self, application, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HttpServer, "start", recording)
        yield found


def routes_of(application: Any) -> list[tuple[str, str]]:
    """Return method and path of each route of an application."""
    owner = getattr(application, "__self__", application)
    if isinstance(owner, QueryServer):
        return [("GET", path) for path, _ in query_api(owner).table()]
    if isinstance(application, StatusService):
        return [("GET", PATH)]
    assert isinstance(application, Starlette), application
    found: list[tuple[str, str]] = []
    for route in application.routes:
        assert isinstance(route, Route), f"what kind of route is {route}?"
        methods = sorted(route.methods or ())
        if route.path == "/{path:path}":
            found += registry_api().table()
        else:
            found += [(method, route.path) for method in methods]
    return found


def registry_api() -> RegistryApi:
    nothing = cast(Any, None)
    return RegistryApi(nothing, nothing, nothing)


def query_api(server: QueryServer) -> QueryApi:
    async def figures() -> dict[str, list[dict[str, Any]]]:
        return {}

    return QueryApi(cast(Any, None), "here:1", server.forward, WatchPages(), figures)


class NoStores:
    """Answers for a worker of Streams."""

    async def answer(self, request: Request) -> Answer:
        return Answer(200, b"{}\n")


@asynccontextmanager
async def all_servers(
    runtime: Runtime, broker: EmbeddedBroker, folder: Path
) -> AsyncIterator[list[Server]]:
    """Start one of each. `moldau dev` starts the console, the worker and the registry as here."""
    clients = {"bootstrap.servers": broker.bootstrap_servers}
    loggers = Loggers(runtime.clock, lambda line: None)
    found: list[Server] = []
    async with AsyncExitStack() as left:
        records = left.enter_context(recorded())
        console = await left.enter_async_context(served(runtime, clients, LOCAL))
        found.append(records.last("console/server.py", console))

        own = {**clients, "task.isolation": "thread", "admin.listeners": f"http://{HOST}:0"}
        worker = ConnectWorker(runtime, own, WorkerLocation(LOCAL, str(folder / "worker")), loggers)
        left.push_async_callback(worker.aclose)
        await worker.start()
        assert worker.address is not None
        assert worker.admin_address is not None
        admin, rest = records.applications[-2:]
        for application, (host, port) in ((admin, worker.admin_address), (rest, worker.address)):
            address = f"http://{host}:{port}"
            found.append(Server("connect/server.py", address, routes_of(application)))

        registry = SchemaRegistryServer(runtime, clients, Options(LOCAL), loggers.get("registry"))
        left.push_async_callback(registry.aclose)
        address = await registry.start()
        found.append(records.last("registry/server.py", address))

        metrics = MetricsServer(runtime, Sampled(runtime).figures)
        left.push_async_callback(metrics.aclose)
        _, port = await metrics.start(f"{HOST}:0", HttpProtection())
        found.append(records.last("exposition/server.py", f"http://{HOST}:{port}"))

        queries = QueryServer(runtime)
        left.push_async_callback(queries.aclose)
        port = await queries.listen(*LOCAL)
        queries.serve(NoStores())
        found.append(records.last("query/server.py", f"http://{HOST}:{port}"))

        status = StatusServer(pipeline(), cast(Any, ClosingLooks()))
        left.callback(status.close)
        address = await runtime.run_blocking(lambda: status.start(StatusAddress(*LOCAL)))
        found.append(records.last("pipeline/publishing.py", address))
        yield found


class ClosingLooks(Looks):
    def close(self) -> None:
        """There is nothing to close."""
