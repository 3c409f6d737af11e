"""What `send` gives: something to await for who wants to know where a record went.

A record costs no future: the batch it is in has one outcome for all, and a future is made only for
who awaits it. A failure that nobody awaits is not lost: the producer's next `flush` raises it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, NamedTuple

from moldau.client.batches import NO_OFFSET, Batch


class Sent(NamedTuple):
    """Where a record is. The offset is -1 if the broker did not say it (acks=0, or the record had
    been stored at an earlier try); the timestamp is -1 unless the broker set it."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class SentRange(NamedTuple):
    """Where some records are that follow one another."""

    topic: str
    partition: int
    base_offset: int
    records: int


async def settled(batch: Batch) -> None:
    """Returns when the batch is acknowledged; KafkaError when it has failed."""
    if not batch.is_done:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if batch.on_done is None:
            batch.on_done = []
        batch.on_done.append(lambda: None if future.done() else future.set_result(None))
        await future
    if batch.error is not None:
        raise batch.error


class Delivery:
    """One record on its way: `await` it for its `Sent`, or for the KafkaError it failed with."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def is_done(self) -> bool:
        """Whether it is decided."""
        return self._batch.is_done

    def __await__(self) -> Generator[Any, None, Sent]:
        yield from settled(self._batch).__await__()
        batch = self._batch
        offset = NO_OFFSET if batch.base_offset < 0 else batch.base_offset + self._index
        return Sent(batch.where.topic, batch.where.partition, offset, batch.timestamp)

    def __repr__(self) -> str:
        state = "waits" if not self._batch.is_done else self._batch.error or "done"
        return f"<Delivery {self._batch.where} {state}>"


class Deliveries:
    """Many records on their way: `await` them for their ranges, or for the first failure."""

    __slots__ = ("_parts", "count")

    def __init__(self, parts: list[tuple[Batch, int, int]]) -> None:
        self._parts = parts
        self.count = sum(part[2] for part in parts)

    def __await__(self) -> Generator[Any, None, list[SentRange]]:
        return self._settled().__await__()

    async def _settled(self) -> list[SentRange]:
        ranges = []
        for batch, first, count in self._parts:
            await settled(batch)
            offset = NO_OFFSET if batch.base_offset < 0 else batch.base_offset + first
            ranges.append(SentRange(batch.where.topic, batch.where.partition, offset, count))
        return ranges
