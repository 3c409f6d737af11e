"""The two readers of `moldau consume`, in simulated time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from moldau.cli.commands.consume import ConsumeReader
from moldau.cli.commands.consume_place import BEGINNING, OffsetOrTime, Stretch
from moldau.cli.commands.consume_reading import GroupReader, PartitionsReader
from moldau.client import PartitionRecords
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import consumer, offsets

GROUPED = pytest.mark.parametrize("is_group", [True, False])


@asynccontextmanager
async def reading(
    runtime: Runtime, place: OffsetOrTime = BEGINNING, *, is_group: bool, follow: bool = False
) -> AsyncIterator[ConsumeReader]:
    clock = runtime.clock
    if is_group:
        async with member(runtime, "eager", enable_auto_commit=False) as client:
            yield GroupReader(client, clock, "g", place)
    else:
        async with consumer(runtime, auto_offset_reset="earliest") as client:
            yield PartitionsReader(client, clock, Stretch(place), partitions=None, follow=follow)


async def read_to_the_end(reader: ConsumeReader) -> dict[int, list[int]]:
    parts: list[PartitionRecords] = []
    while not await reader.is_read():
        parts += await reader.next(1000)
    await reader.finish()
    return offsets(parts)
