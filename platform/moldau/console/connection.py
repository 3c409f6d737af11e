"""The console's connections to the cluster that it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from moldau.client import Admin, Consumer, Producer
from moldau.console.decoding import Decoder
from moldau.link.metadata import Topic
from moldau.runtime import Clock

LISTING_S: Final = 2.0
"""The listing of topics is used again for this long: leafing through pages asks once."""
_TIMEOUTS: Final = {"default.api.timeout.ms": "15000", "client.id": "moldau-console"}
_READER: Final = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
}


class Connection:
    """Opens the admin client at its first use, and again after it could not be opened."""

    def __init__(
        self, settings: Mapping[str, str], clock: Clock, registry: str | None = None
    ) -> None:
        """`registry` is the address of a Schema Registry, by which records are decoded."""
        self.bootstrap = settings.get("bootstrap.servers", "")
        self._settings = {**_TIMEOUTS, **settings}
        self._clock = clock
        self.decoder = None if registry is None else Decoder(registry)
        self._admin: Admin | None = None
        self._topics: tuple[float, list[Topic]] | None = None

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

    def _opened(self) -> Admin | None:
        return self._admin

    async def topics(self) -> list[Topic]:
        """Return all topics, internal ones included, at most LISTING_S old."""
        now = self._clock.monotonic()
        if self._topics is None or now - self._topics[0] > LISTING_S:
            self._topics = now, await (await self.admin()).list_topics(internal=True)
        return self._topics[1]

    def forget_topics(self) -> None:
        """Ask for the topics anew next time: one was changed."""
        self._topics = None

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[Consumer[bytes, bytes]]:
        """A consumer without a group: it leaves no trace in the cluster."""
        async with Consumer({**self._settings, **_READER}) as consumer:
            yield consumer

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer[Any, Any]]:
        """A producer for one record."""
        async with Producer(self._settings) as producer:
            yield producer

    async def aclose(self) -> None:
        """Close the clients."""
        if self._admin is not None:
            await self._admin.aclose()
        if self.decoder is not None:
            await self.decoder.aclose()
