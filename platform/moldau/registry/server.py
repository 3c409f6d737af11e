"""One instance of the registry: the log, the election, the decisions and the REST API, joined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.client.serdes.registry.connections import Connections, HttpBroken
from moldau.client.serdes.registry.http import HttpRequest, parse_url
from moldau.errors.codes import KafkaError
from moldau.link.http_protection import HttpProtection
from moldau.registry import refusals
from moldau.registry.application import BODY_BYTES_MAX, PROBES, Api, make_application
from moldau.registry.catalogue import Catalogue
from moldau.registry.decisions import Decisions, Outcome
from moldau.registry.election import Address, Election
from moldau.registry.exposition import RegistryMetrics
from moldau.registry.log import SchemasLog
from moldau.registry.queries import Queries
from moldau.registry.refusals import Refusal
from moldau.registry.store import Store
from moldau.registry.writer import Writer
from moldau.runtime.http_server import HttpServer

if TYPE_CHECKING:
    import ssl

    from moldau.logging import Logger
    from moldau.metrics import Registry
    from moldau.runtime import Runtime

TOPIC: Final = "_schemas"
GROUP: Final = "schema-registry"
FORWARD_S: Final = 60.0
CONNECT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """Where an instance listens, and the names that all instances share."""

    listen: tuple[str, int]
    advertised: tuple[str, int] | None = None
    topic: str = TOPIC
    group: str = GROUP
    protection: HttpProtection = field(default_factory=HttpProtection)
    peers: Callable[[], ssl.SSLContext] | None = None
    """Returns the TLS context of requests to other instances; None without TLS."""
    replicas: int | None = None
    """Of a new topic; None means three, or one a broker if there are fewer."""
    body_bytes_max: int = BODY_BYTES_MAX
    """A request with a larger body is refused before it is read whole."""


class SchemaRegistryServer:
    """One instance."""

    def __init__(
        self, runtime: Runtime, settings: Mapping[str, str], options: Options, log: Logger
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._options = options
        self._logger = log
        self.store = Store()
        self._log = SchemasLog(runtime, settings, options.topic, log, options.replicas)
        self._http = HttpServer(runtime, "the schema registry", "choose another address")
        self._election: Election | None = None
        self._writer: Writer | None = None
        self._peers = _Peers(runtime, options.peers)
        self._tasks: set[asyncio.Task[None]] = set()
        self._metrics = RegistryMetrics(self.store, self._is_leading, runtime.clock)
        self.url = ""

    @property
    def metrics(self) -> Registry:
        """The metrics of this instance."""
        return self._metrics.registry

    async def start(self) -> str:
        """Read the schemas and serve them; return the address. On return reads are answered;
        writes wait for the election. Raise CannotListen, KafkaError or ConfigError."""
        host, port = self._http.bind(*self._options.listen)
        protection = self._options.protection
        address = Address(protection.scheme, *(self._options.advertised or (host, port)))
        self.url = address.url
        await self._log.start(self.store.replay)
        if self.store.unreadable:
            self._logger.warn(
                "records of the topic of schemas were passed over: they are of no known form",
                records=self.store.unreadable,
            )
        group = self._options.group
        writes_as = f"{GROUP}-{self._options.topic}"  # of all groups, so that none writes beside
        self._writer = Writer(self._log, self.url, writes_as, self._logger)
        self._writer.on_fenced = self._elect_again
        self._election = Election(
            self._runtime, self._settings, group, address, self._writer.follow, self._logger
        )
        await self._election.start()
        catalogue = Catalogue(self.store)
        decisions = Decisions(self.store, catalogue)
        queries = Queries(self.store, catalogue, decisions)
        api = Api(self, queries, decisions, self._options.body_bytes_max)
        application = protection.guard(
            make_application(api, self._metrics), lambda method, path: path in PROBES
        )
        await self._http.start(application, protection.context)
        return Address(protection.scheme, host, port).url

    async def wait(self) -> None:
        """Wait until a part of the started instance has ended, and raise the reason."""
        assert self._election is not None
        parts = [self._log.followed(), self._election.stayed()]
        ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for each in ended:
            each.result()

    def _is_leading(self) -> bool:
        return self._writer is not None and self._writer.is_leading

    def _elect_again(self) -> None:
        assert self._election is not None
        task = self._runtime.spawn(self._election.again(), name="elect again")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Leave the group, and close everything. May be called again."""
        await self._http.aclose()
        election, self._election = self._election, None
        if election is not None:
            await election.aclose()
        await self._log.aclose()
        await self._peers.aclose()

    # What the API needs

    async def leader(self) -> str:
        assert self._writer is not None
        return await self._writer.leader()

    async def write(self, decide: Callable[[], Outcome]) -> Any:
        assert self._writer is not None
        return await self._writer.write(decide)

    async def forward(
        self, leader: str, request: HttpRequest, authorization: str | None
    ) -> tuple[int, bytes]:
        address, scheme = parse_url(leader), self._options.protection.scheme
        if address.scheme != scheme:
            message = f"The leader {leader} must be served by {scheme}, as this instance is"
            raise Refusal(refusals.FORWARDING, message)
        try:
            found = await self._peers.now().exchange(address, authorization, request)
        except (TimeoutError, HttpBroken) as error:
            message = f"The leader {leader} does not answer: {error}"
            raise Refusal(refusals.FORWARDING, message) from error
        if found.status < 300:
            await self._log.read_to_end()
        return found.status, found.body

    async def cluster_id(self) -> str:
        try:
            return (await self._log.admin.describe_cluster()).cluster_id or ""
        except KafkaError as error:
            raise Refusal(refusals.STORE, str(error)) from error


class _Peers:
    """The connections to other instances. New certificates count from the next request on."""

    def __init__(self, runtime: Runtime, context: Callable[[], ssl.SSLContext] | None) -> None:
        self._runtime = runtime
        self._context = context
        self._made: list[Connections] = []
        self._tls: ssl.SSLContext | None = None

    def now(self) -> Connections:
        """Return the connections for a request."""
        tls = None if self._context is None else self._context()
        if not self._made or tls is not self._tls:
            self._tls = tls
            self._made.append(Connections(self._runtime, tls, CONNECT_S, FORWARD_S))
        return self._made[-1]

    async def aclose(self) -> None:
        """Close all connections."""
        while self._made:
            await self._made.pop().aclose()


@asynccontextmanager
async def served(
    runtime: Runtime, settings: Mapping[str, str], options: Options, log: Logger
) -> AsyncIterator[str]:
    """Serve the registry of a cluster, and yield its address."""
    server = SchemaRegistryServer(runtime, settings, options, log)
    try:
        yield await server.start()
    finally:
        await server.aclose()
