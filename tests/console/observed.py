"""A broker's metrics at an address, with a past that a test has made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from moldau.broker.exposition.application import NodeFigures
from moldau.broker.exposition.node import ObservedBroker
from moldau.broker.exposition.recent import Recent
from moldau.broker.exposition.server import MetricsServer
from moldau.client import Producer
from moldau.link.http.protection import HttpProtection
from moldau.metrics.ring import EVERY_MS, SPAN_MS
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.broker.exposition.scraped import broker_of

NOW: Final = 1_700_000_000_000 // EVERY_MS * EVERY_MS
GREW: Final = NOW - 8 * 60_000
"""When the lag begins to grow: eight minutes ago."""


@asynccontextmanager
async def observed(embedded: EmbeddedBroker) -> AsyncIterator[tuple[str, Recent]]:
    """The metrics of the broker inside, at an address, without samples of now."""
    async with RealRuntime("metrics") as runtime:
        turn, node = partial(asyncio.sleep, 0), ObservedBroker(broker_of(embedded))
        recent = Recent(runtime.clock, turn)
        server = MetricsServer(runtime, NodeFigures(runtime.clock, turn, lambda: node, recent))
        try:
            host, port = await server.start("127.0.0.1:0", HttpProtection())
            yield f"http://{host}:{port}", recent
        finally:
            await server.aclose()


async def fill(embedded: EmbeddedBroker, recent: Recent) -> None:
    """Fill a quarter of an hour: `billing` has stopped reading, and three records come each 15 s
    from eight minutes ago on."""
    seen = ObservedBroker(broker_of(embedded)).observed()
    async with Producer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for at_ms in range(NOW - SPAN_MS, NOW + 1, EVERY_MS):
            if at_ms > GREW:
                for _ in range(3):
                    await producer.send_and_wait("orders", b"x" * 100, partition=1)
            await recent.sample(seen, at_ms)
