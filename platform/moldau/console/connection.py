"""The console's connections to the cluster that it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from moldau.cli.commands.registry_place import URL
from moldau.client import Admin, Consumer, Producer
from moldau.client.settings import serdes as rows
from moldau.console.apis.connect import ConnectApi
from moldau.console.apis.nodes import NODES, NodePasts
from moldau.console.apis.prometheus import PROMETHEUS, PrometheusApi
from moldau.console.apis.services import LinkedServices
from moldau.console.pages.decoding import Decoder
from moldau.console.refresher import LocalTopics, Refresher
from moldau.console.search.searches import Searches
from moldau.errors.codes import KafkaError
from moldau.link.metadata import Topic
from moldau.runtime import Runtime

_OF_REGISTRY: Final = frozenset(
    name for row in rows.SERDE_ROWS for name in (row.name, *row.aliases)
)
_TIMEOUTS: Final = {"default.api.timeout.ms": "15000", "client.id": "moldau-console"}
_REGISTRY_DEFAULTS: Final = {
    rows.connect_timeout_ms.name: "2000",
    rows.read_timeout_ms.name: "5000",
    rows.retries_max.name: "0",
    rows.latest_cache_ttl_s.name: "5",
}
"""Of the registry's client here: a page waits for it, and shows a schema that is registered since.
Settings that are given go first."""
_READER: Final = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
}
_AT_ONCE: Final = {"fetch.max.wait.ms": "5"}
"""Of a consumer that reads what is there. A broker answers the requests of a connection in turn, so
a fetch that waits for records would hold up the next page."""
KEPT: Final = 2
"""How many consumers wait for the next page."""


class Connection:
    """Opens the admin client at its first use, and again after it could not be opened."""

    def __init__(
        self,
        settings: Mapping[str, str],
        runtime: Runtime,
        registry: str | None = None,
        connect: str | None = None,
        services: LinkedServices | None = None,
        topics: LocalTopics | None = None,
    ) -> None:
        """`settings` are of clients, of a registry's client, and those of `apis.nodes` and
        `apis.prometheus`. `registry` is the address of a
        Schema Registry, by which records are decoded; `connect` that of a Connect worker;
        `services` has Streams apps and pipelines; `topics` is for a `Refresher`."""
        self.bootstrap = settings.get("bootstrap.servers", "")
        self.name = ""
        """The name among several clusters of one console."""
        by_registry = {name: text for name, text in settings.items() if name in _OF_REGISTRY}
        own = {name: text for name, text in settings.items() if name not in _OF_REGISTRY}
        self.nodes = NodePasts(runtime, own.pop(NODES, "").split())
        prometheus = own.pop(PROMETHEUS, None)
        self.prometheus = None if prometheus is None else PrometheusApi(runtime, prometheus)
        self._settings = {**_TIMEOUTS, **own}
        self.decoder: Decoder | None = None
        if registry is not None:
            of_decoder = {**_REGISTRY_DEFAULTS, **by_registry, URL: registry}
            self.decoder = Decoder(of_decoder, runtime.clock)
        self._admin: Admin | None = None
        self._kept: list[Consumer[bytes, bytes]] = []
        self._is_closed = False
        self.is_ending = False
        """Whether the console ends, so that responses that follow new messages have to."""
        self.connect = None if connect is None else ConnectApi(runtime, connect)
        self.services = LinkedServices() if services is None else services
        self.lists = Refresher(runtime, self.admin, topics)
        self.searches = Searches(self, runtime)

    async def admin(self) -> Admin:
        """Return the admin client. Raise KafkaError if no broker can be reached."""
        if self._admin is not None:
            return self._admin
        admin = Admin(self._settings)
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(admin.aclose)
            await admin.start()
            on_failure.pop_all()
        other = self._opened()
        if other is not None:  # two requests opened one at the same time
            await admin.aclose()
            return other
        self._admin = admin
        return admin

    async def topic(self, name: str) -> Topic:
        """Return a topic. Raise KafkaError, also if it does not exist."""
        found = (await (await self.admin()).describe_topics([name]))[name]
        if isinstance(found, KafkaError):
            raise found
        return found

    def _opened(self) -> Admin | None:
        return self._admin

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[Consumer[bytes, bytes]]:
        """A consumer without a group: it leaves no trace in the cluster. After a block that ends
        well it is kept for the next page, which so needs no new connection and no metadata."""
        consumer = self._kept.pop() if self._kept else await self._new_consumer()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(consumer.aclose)
            yield consumer
            consumer.assign([])
            if len(self._kept) < KEPT and not self._is_closed:
                stack.pop_all()
                self._kept.append(consumer)

    @asynccontextmanager
    async def follower(self) -> AsyncIterator[Consumer[bytes, bytes]]:
        """A consumer for records that are still to come."""
        async with Consumer({**self._settings, **_READER}) as consumer:
            yield consumer

    async def _new_consumer(self) -> Consumer[bytes, bytes]:
        consumer: Consumer[bytes, bytes] = Consumer({**self._settings, **_READER, **_AT_ONCE})
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(consumer.aclose)
            await consumer.start()
            on_failure.pop_all()
        return consumer

    @asynccontextmanager
    async def producer(
        self, more: Mapping[str, str] | None = None
    ) -> AsyncIterator[Producer[Any, Any]]:
        """A producer for one record; `more` are settings beside those of the console."""
        async with Producer({**self._settings, **(more or {})}) as producer:
            yield producer

    async def aclose(self) -> None:
        """Close the clients."""
        self._is_closed = True
        await self.lists.aclose()
        await self.services.aclose()
        await self.nodes.aclose()
        if self.prometheus is not None:
            await self.prometheus.aclose()
        while self._kept:
            await self._kept.pop().aclose()
        if self._admin is not None:
            await self._admin.aclose()
        if self.decoder is not None:
            await self.decoder.aclose()
        if self.connect is not None:
            await self.connect.aclose()
