"""A listener that takes its time when partitions go, in a group of ten records."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.client import Consumer, RebalanceListener
from tests.client.consumer.numbered_records import fill, read_all
from tests.client.group.simulated_consumer import OPTIONS
from tests.client.world import ClientWorld

KINDS = list(OPTIONS)


class Refused(Exception):
    """What listeners raise."""


class Slow(RebalanceListener):
    """Takes its time when partitions go, and may raise then."""

    def __init__(self, takes_s: float = 3.0, *, raises: bool = False) -> None:
        self.heard: list[str] = []
        self.is_told = asyncio.Event()
        self._takes_s = takes_s
        self._raises = raises

    def on_partitions_assigned(self, partitions: Any) -> None:
        self.heard.append("assigned")

    async def on_partitions_revoked(self, partitions: Any) -> None:
        self.heard.append("revoked")
        self.is_told.set()
        await asyncio.sleep(self._takes_s)
        if self._raises:
            raise Refused


def run(main: Any) -> None:
    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(lambda runtime: main(runtime, world))


async def begins_to_unsubscribe(reader: Consumer, listener: Slow) -> asyncio.Task[None]:
    """The listener is being told of it."""
    await reader.subscribe("t", listener=listener)
    await read_all(reader, 10)
    leaving = asyncio.create_task(reader.unsubscribe())
    await listener.is_told.wait()
    return leaving
