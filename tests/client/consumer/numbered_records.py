"""Records that have their offsets as values: written, and read by a consumer in simulated time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from moldau.client import Consumer, PartitionRecords
from moldau.records import encode_batch
from moldau.runtime import Runtime
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP


def consumer(runtime: Runtime, **options: Any) -> Consumer:
    return Consumer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


def fill(log: Log, count: int, per_batch: int = 10) -> None:
    """Records whose values and timestamps are their offsets."""
    for first in range(log.end, log.end + count, per_batch):
        rows = [(n, None, b"%d" % n, ()) for n in range(first, first + per_batch)]
        log.put(encode_batch(rows))


def offsets(parts: list[PartitionRecords]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for part in parts:
        for record in part.records:
            assert record.value == b"%d" % record.offset
            found[part.partition].append(record.offset)
    return found


async def read_all(
    reader: Consumer, count: int, *, within_s: float = 120.0, most: int = 37
) -> dict[int, list[int]]:
    parts: list[PartitionRecords] = []
    async with asyncio.timeout(within_s):
        while sum(len(part.records) for part in parts) < count:
            parts += await reader.poll(1.0, max_records=most)
    return offsets(parts)
