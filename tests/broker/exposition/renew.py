"""Writes docs/metrics.md anew: python -m tests.broker.exposition.renew"""

from __future__ import annotations

import asyncio
from pathlib import Path

from moldau.broker.exposition.reference import render
from moldau.metrics import Metric
from moldau.testing import EmbeddedBroker
from tests.broker.exposition.scraped import broker_of

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


async def declared() -> tuple[Metric, ...]:
    """What a node that runs declares in its registry."""
    async with EmbeddedBroker() as broker:
        return broker_of(broker).node.metrics.snapshot()


if __name__ == "__main__":
    PAGE.write_text(render(asyncio.run(declared())), encoding="ascii")
