"""Pushes the metrics of this process to an OTLP receiver, by the names that `/metrics` has.

Series of Prometheus' boards keep their names; our own have OpenTelemetry's dotted names, of which a
collector makes the names of `/metrics` again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.exposition.health import Observable
from moldau.broker.exposition.scrape import Scraper
from moldau.link.telemetry.otlp import OtlpPush, OtlpTarget, PushContent, resource_of
from moldau.metrics.otlp import Times, metric_messages
from moldau.plugins.layers import platform_version

if TYPE_CHECKING:
    from moldau.broker.exposition.scrape import ScrapedNode
    from moldau.logging import Logger
    from moldau.runtime import Runtime

_NS_PER_MS: Final = 1_000_000


class MetricsPush:
    """The push of this process, from its node's start to its end."""

    def __init__(self, runtime: Runtime, target: OtlpTarget, log: Logger) -> None:
        self._clock = runtime.clock
        self._target = target
        self._node: Observable | None = None
        self._scraper = Scraper(runtime.clock, partial(asyncio.sleep, 0))
        self._started_ns = runtime.clock.wall_ms() * _NS_PER_MS
        self._push = OtlpPush(runtime, target, self._gathered, log)

    def watch(self, node: Observable) -> None:
        """Begin to push: the node is started."""
        self._node = node
        self._push.start()

    async def finish(self) -> None:
        """Stop, with a last push of what the node has counted until its end."""
        await self._push.finish()

    def _gathered(self) -> PushContent | None:
        if self._node is None:
            return None
        observed = self._node.observed()
        return PushContent(
            resource_of(
                self._target,
                {
                    "service.name": "moldau",
                    "service.version": platform_version(),
                    "service.instance.id": str(observed.node_id),
                },
            ),
            self._metrics(observed),
        )

    async def _metrics(self, observed: ScrapedNode) -> AsyncIterator[bytes]:
        times = Times(self._started_ns, self._clock.wall_ms() * _NS_PER_MS)
        async for metric in self._scraper.metrics(observed):
            for each in metric_messages(metric, times):
                yield each
