"""One instance of the registry: the log, the election, the decisions and the REST API, joined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from moldau.client.serdes.registry.http import HttpRequest, parse_url
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError
from moldau.folds.elected import Elected
from moldau.folds.leader_writer import (
    TOO_LARGE,
    ClaimFailed,
    LeaderWriter,
    NotLeader,
    Outcome,
)
from moldau.folds.topic import FoldTopic
from moldau.folds.topic_fold import Record, TopicFold
from moldau.link.http.protection import HttpProtection
from moldau.registry import refusals
from moldau.registry.application import BODY_TYPES, PROBES, Api, make_application
from moldau.registry.catalogue import Catalogue
from moldau.registry.decisions import Decisions
from moldau.registry.election import Address, Candidate
from moldau.registry.exposition import RegistryMetrics
from moldau.registry.queries import Queries
from moldau.registry.refusals import Refusal
from moldau.registry.store import Store
from moldau.runtime.http_client import HttpClient, HttpTimeouts, NoAnswer
from moldau.runtime.http_door import BODY_BYTES_MAX
from moldau.runtime.http_server import HttpServer

if TYPE_CHECKING:
    import ssl

    from moldau.logging import Logger
    from moldau.metrics import Registry
    from moldau.runtime import Runtime

TOPIC: Final = "_schemas"
GROUP: Final = "schema-registry"
LEADER_S: Final = 10.0
"""How long a write waits for an election."""
TRANSACTION_MS: Final = 30_000
_WAITS: Final = HttpTimeouts(connect_s=5.0, read_s=60.0)
_IDLE_MAX: Final = 4


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
        topic = FoldTopic(
            options.topic, "the topic of schemas", replicas=options.replicas, is_ordered=True
        )
        self.fold = TopicFold(runtime, settings, topic, self._replay, log)
        # The id is that of all groups, so that none writes beside another.
        writes_as = f"{GROUP}-{options.topic}"
        self.writer = LeaderWriter(runtime, settings, self.fold, writes_as, TRANSACTION_MS)
        self._http = HttpServer(runtime, "the schema registry", "choose another address")
        self._elected: Elected | None = None
        self._peers = _Peers(runtime, options.peers)
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
        await self.fold.start()
        if self.store.unreadable:
            self._logger.warn(
                "records of the topic of schemas were passed over: they are of no known form",
                records=self.store.unreadable,
            )
        group = self._options.group
        self._elected = Candidate(
            self._runtime, self._settings, group, address, self.writer, self._logger
        ).elected
        await self._elected.start()
        catalogue = Catalogue(self.store)
        decisions = Decisions(self.store, catalogue)
        queries = Queries(self.store, catalogue, decisions)
        api = Api(self, queries, decisions)
        application = protection.guard(
            make_application(api, self._metrics), lambda method, path: path in PROBES
        )
        rules = replace(
            protection.rules(BODY_TYPES, (address.host,)),
            body_bytes_max=self._options.body_bytes_max,
        )
        await self._http.start(application, rules, protection.context)
        return Address(protection.scheme, host, port).url

    def _replay(self, record: Record) -> None:
        self.store.replay(record.key, record.value)

    async def wait(self) -> None:
        """Wait until a part of the started instance has ended, and raise the reason."""
        assert self._elected is not None
        parts = [self.fold.followed(), self._elected.stayed()]
        ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for each in ended:
            each.result()

    def _is_leading(self) -> bool:
        return self._elected is not None and self._elected.leads

    async def aclose(self) -> None:
        """Leave the group, and close everything. May be called again."""
        await self._http.aclose()
        elected, self._elected = self._elected, None
        if elected is not None:
            await elected.aclose()
        await self.writer.step_down()
        await self.fold.aclose()
        await self._peers.aclose()

    # What the API needs

    async def leader(self) -> str:
        assert self._elected is not None
        leader = await self._elected.leader_within(LEADER_S)
        if leader is None:
            raise Refusal(refusals.NO_LEADER, "No instance leads now: try again")
        return leader.url

    async def write(self, decide: Callable[[], Outcome]) -> Any:
        try:
            return await self.writer.write(decide)
        except ClaimFailed as error:
            raise Refusal(refusals.STORE, f"The schemas cannot be read: {error}") from error
        except NotLeader:
            raise Refusal(refusals.NO_LEADER, "The leader is just changing: try again") from None
        except TimeoutError:
            raise Refusal(refusals.TIMEOUT, "The write was not read back in time") from None
        except KafkaError as error:
            if error.code in TOO_LARGE:
                raise Refusal(refusals.TOO_LARGE, f"The schema is too large: {error}") from error
            raise Refusal(refusals.STORE, f"The cluster refused the write: {error}") from error

    async def forward(
        self, leader: str, request: HttpRequest, authorization: str | None
    ) -> tuple[int, bytes]:
        address, scheme = parse_url(leader), self._options.protection.scheme
        if address.scheme != scheme:
            message = f"The leader {leader} must be served by {scheme}, as this instance is"
            raise Refusal(refusals.FORWARDING, message)
        try:
            found = await self._peers.now().request(
                request.method,
                f"{address}{request.target}",
                request.body,
                request.headers(authorization),
                is_repeatable=True,
            )
        except NoAnswer as error:
            message = f"The leader {leader} does not answer: {error}"
            raise Refusal(refusals.FORWARDING, message) from error
        if found.status < 300:
            await self.fold.catch_up()
        return found.status, found.body

    async def cluster_id(self) -> str:
        try:
            return (await self.fold.admin.describe_cluster()).cluster_id or ""
        except KafkaError as error:
            raise Refusal(refusals.STORE, str(error)) from error


class _Peers:
    """The connections to other instances. New certificates count from the next request on."""

    def __init__(self, runtime: Runtime, context: Callable[[], ssl.SSLContext] | None) -> None:
        self._runtime = runtime
        self._context = context
        self._made: list[HttpClient] = []
        self._tls: ssl.SSLContext | None = None

    def now(self) -> HttpClient:
        """Return the connections for a request."""
        tls = None if self._context is None else self._context()
        if not self._made or tls is not self._tls:
            self._tls = tls
            self._made.append(HttpClient(self._runtime, _WAITS, tls, idle_max=_IDLE_MAX))
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
