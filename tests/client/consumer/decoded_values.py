"""Values that a consumer reads from their start and decodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from moldau.client import Consumer, PartitionRecords
from moldau.records import encode_batch
from tests.client.scripted import Log


def fill(log: Log, values: Sequence[bytes | None], per_batch: int = 4) -> None:
    for start in range(0, len(values), per_batch):
        first = log.end
        part = values[start : start + per_batch]
        log.put(
            encode_batch(
                [
                    (first + n, b"%d" % (first + n), each, (("h", b"1"),))
                    for n, each in enumerate(part)
                ]
            )
        )


async def begin(reader: Consumer) -> None:
    reader.assign(await reader.partitions("t"))
    await reader.seek_to_beginning()


async def read(reader: Consumer, count: int) -> list[PartitionRecords]:
    parts: list[PartitionRecords] = []
    async with asyncio.timeout(60):
        while sum(len(part.records) for part in parts) < count:
            parts += await reader.poll(1.0, max_records=7)
    return parts


def values(parts: list[PartitionRecords]) -> list[Any]:
    return [record.value for part in parts for record in part.records]
