"""A broker inside another program, found by `moldau.testing` through an entry point.

The caller chooses the broker's address and its directory. The directory is formatted if it is
empty. The broker logs only errors, to standard error. Its metrics are served where
`moldau.metrics.listener` says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from io import StringIO
from typing import TYPE_CHECKING, Final

from moldau.broker.api.topic_view import topic_slices
from moldau.broker.decision.authorizer import ALLOW_ALL
from moldau.broker.server.broker import Broker
from moldau.broker.server.standalone import CLIENTS, standalone_layer
from moldau.broker.server.storage import format_if_empty
from moldau.broker.settings import broker_settings
from moldau.broker.settings.telemetry import moldau_metrics_listener
from moldau.config import overrides
from moldau.logging import Level, Loggers
from moldau.runtime import Runtime
from moldau.runtime.direct import open_direct

if TYPE_CHECKING:
    from moldau.link.metadata import Topic

_QUIET: Final = Level.ERROR


class EmbeddedNode:
    """A running broker. Satisfies `moldau.testing.RunningBroker`."""

    def __init__(self, broker: Broker, beside: AsyncExitStack | None = None) -> None:
        """`beside` is what ends after the broker."""
        self.broker = broker
        self._beside = beside or AsyncExitStack()

    @property
    def bootstrap(self) -> tuple[str, int]:
        """The address that clients connect to."""
        return self.broker.endpoints[CLIENTS]

    def topics(self) -> Iterator[list[Topic]] | None:
        """Return the topics of the metadata image in slices; None if there are access rules, which
        count only over the wire."""
        node = self.broker.node
        return None if node.authorizer is not ALLOW_ALL else topic_slices(node, CLIENTS)

    async def aclose(self) -> None:
        """Stop cleanly."""
        async with self._beside:
            await self.broker.aclose()


async def start_embedded(
    runtime: Runtime, directory: str, settings: Mapping[str, str], host: str, port: int
) -> EmbeddedNode:
    """Start a broker that serves clients at `host`. `settings` override those of a standalone
    node."""
    ground = standalone_layer(directory, host, port)
    given = broker_settings(ground, overrides(dict(settings)))
    now_ms = runtime.clock.wall_ms()
    format_if_empty(runtime.files, given, runtime.random, now_ms, host)
    loggers = Loggers(runtime.clock, sys.stderr.write, level=_QUIET)
    async with AsyncExitStack() as beside:
        served = None
        if given[moldau_metrics_listener]:
            from moldau.broker.main.process import sampler

            serving = sampler(runtime, given, loggers, StringIO())
            served = await beside.enter_async_context(serving)
        broker = await Broker.start(
            runtime, given, loggers=loggers, open_direct=open_direct, host_name=host
        )
        if served is not None:
            from moldau.broker.exposition.node import ObservedBroker

            served.watch(ObservedBroker(broker))
        kept = beside.pop_all()
    return EmbeddedNode(broker, kept)
