"""Rows of a partition, and what one poll gives of it."""

from __future__ import annotations

from typing import Any

from moldau.client import PartitionRecords
from moldau.records import encode_batch
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer
from tests.client.world import ClientWorld

ROWS: list[Any] = [
    (1_000, b"k", b"one", (("h", b"1"), ("h", None))),
    (2_000, None, b"two", ()),
    (-1, b"", None, ()),
]


def polled(*, partition: int = 1, **options: Any) -> PartitionRecords:
    async def main(runtime: Runtime) -> PartitionRecords:
        async with consumer(runtime, **options) as reader:
            reader.assign([("t", partition)])
            await reader.seek_to_beginning()
            (part,) = await reader.poll(5.0)
            return part

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])[partition].put(encode_batch(ROWS))
        found: PartitionRecords = world.run_client(main)
        return found
