"""Whether an input is at its end is known only while its leader answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from moldau.runtime import Runtime
from moldau.streams.worker.door import Door, Rebalance, TopicPartition
from moldau.streams.worker.settings import app_settings
from moldau.testing import EmbeddedBroker
from tests.streams.worker.running import Cluster


async def ignored(_: Sequence[TopicPartition]) -> None:
    """The test takes all that comes."""


async def poll_until(door: Door, where: TopicPartition, *, is_at_end: bool) -> None:
    """Fails after a minute."""
    async with asyncio.timeout(60):
        while (
            where not in door.consumer.assignment
            or (where in door.at_end([where])) is not is_at_end
        ):
            await door.poll(0.1)


async def test_an_input_is_not_at_its_end_while_its_broker_is_away(
    runtime: Runtime, tmp_path: Path
) -> None:
    where = TopicPartition("in", 0)
    async with EmbeddedBroker(directory=str(tmp_path)) as broker:
        servers, port = broker.bootstrap_servers, broker.port
        await Cluster(servers, runtime).make("in", partitions=1)
        door = Door(app_settings({"bootstrap.servers": servers}), "app", "app-0", runtime)
        await door.start()
        await door.subscribe(["in"], Rebalance(ignored, ignored, ignored))
        await poll_until(door, where, is_at_end=True)

    await poll_until(door, where, is_at_end=False)

    async with EmbeddedBroker(directory=str(tmp_path), port=port):
        await poll_until(door, where, is_at_end=True)
        await door.aclose()
