"""A registry for tests: its pure parts in memory, or an instance beside a broker."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2

from moldau.client.serdes.registry.http import HttpRequest
from moldau.folds.leader_writer import Outcome
from moldau.logging import Logger, Loggers
from moldau.registry.application import Api, make_application
from moldau.registry.catalogue import Catalogue
from moldau.registry.decisions import Decisions
from moldau.registry.exposition import RegistryMetrics
from moldau.registry.queries import Queries
from moldau.registry.records import Entry
from moldau.registry.server import Options, SchemaRegistryServer
from moldau.registry.store import Store
from moldau.runtime import Runtime
from moldau.runtime.real import RealClock
from moldau.testing import EmbeddedBroker
from tests.cli.serving import serving

USER = '{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}'
USER_2 = (
    '{"type":"record","name":"User","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":"int","default":0}]}'
)
USER_BAD = (
    '{"type":"record","name":"User","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":"int"}]}'
)


class Memory:
    """A registry whose log is a list. It replays each decision at once."""

    def __init__(self) -> None:
        self.url = "http://registry"
        self.log: list[Entry] = []
        self.store = Store()
        self.catalogue = Catalogue(self.store)
        self.decisions = Decisions(self.store, self.catalogue)
        self.queries = Queries(self.store, self.catalogue, self.decisions)

    async def leader(self) -> str:
        return self.url

    async def write(self, decide: Callable[[], Outcome]) -> Any:
        outcome = decide()
        for entry in outcome.records:
            self.put(Entry(*entry))
        return outcome.answer

    def put(self, entry: Entry) -> None:
        self.log.append(entry)
        self.store.replay(entry.key, entry.value)

    async def forward(
        self, leader: str, request: HttpRequest, authorization: str | None
    ) -> tuple[int, bytes]:
        raise AssertionError("this instance leads")

    async def cluster_id(self) -> str:
        return "cluster"


class Answers:
    """A client of the REST API that returns status and JSON."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        found = await self.http.request(
            method, path, content=None if body is None else json.dumps(body)
        )
        is_json = "json" in found.headers.get("content-type", "")
        return found.status_code, found.json() if is_json else found.text

    async def get(self, path: str) -> Any:
        """The answer, which must be no error."""
        status, body = await self.ask("GET", path)
        assert status == 200, body
        return body

    async def register(self, subject: str, schema: str, **more: Any) -> Any:
        """The answer to a registration, which must be no error."""
        status, body = await self.ask(
            "POST", f"/subjects/{subject}/versions", {"schema": schema, **more}
        )
        assert status == 200, body
        return body

    async def error(self, method: str, path: str, body: object = None) -> tuple[int, int]:
        """Status and error code of a request that is refused."""
        status, found = await self.ask(method, path, body)
        assert status >= 400, found
        assert found["message"], found
        return status, found["error_code"]


@asynccontextmanager
async def in_memory(registry: Memory | None = None) -> AsyncIterator[tuple[Answers, Memory]]:
    """The REST API of a registry in memory."""
    memory = registry or Memory()
    api = Api(memory, memory.queries, memory.decisions)
    metrics = RegistryMetrics(memory.store, lambda: True, RealClock())
    transport = httpx2.ASGITransport(make_application(api, metrics))
    async with httpx2.AsyncClient(transport=transport, base_url=memory.url) as http:
        yield Answers(http), memory


def settings_of(broker: EmbeddedBroker) -> Mapping[str, str]:
    """The settings of a client of a broker."""
    return {"bootstrap.servers": broker.bootstrap_servers}


def log_of(runtime: Runtime) -> Logger:
    """A logger whose lines are kept nowhere."""
    return Loggers(runtime.clock, lambda line: None).get("registry")


@asynccontextmanager
async def instance(
    runtime: Runtime, broker: EmbeddedBroker, **settings: str
) -> AsyncIterator[tuple[Answers, SchemaRegistryServer]]:
    """A started instance beside a broker, and a client of it."""
    given = {**settings_of(broker), **settings}
    server = SchemaRegistryServer(runtime, given, Options(("127.0.0.1", 0)), log_of(runtime))
    try:
        url = await server.start()
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            yield Answers(http), server
    finally:
        await server.aclose()


def run_real(main: Callable[[Runtime], Awaitable[None]]) -> None:
    """Run on a real runtime."""
    from moldau.runtime.real import run

    async def node(runtime: Runtime) -> None:
        await main(runtime)

    run(node, node="test")


@contextmanager
def process(bootstrap: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`moldau registry start` as a process, and its address."""
    command = ("registry", "start", "-b", bootstrap, "--listen", "127.0.0.1:0", *words)
    with serving(*command, told="moldau registry is up at") as running:
        yield running
