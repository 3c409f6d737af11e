"""Iterating over a consumer's records, with `async for` or `anext`.

Invariants: a cancelled wait (`asyncio.wait_for(anext(records), 1.0)`) loses nothing and does not
end the stream, as it would end an asynchronous generator. Polled records that were not returned yet
stay in the consumer's `Backlog`, where commits, seeks and the next stream see them. Other tasks get
to run between two parts, and between two records when it is time: up to `_BETWEEN_LOOKS` records
share one check of the clock, fewer if the records take long.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final, Generic, Self

from moldau.client.consumer.backlog import Chosen
from moldau.client.consumer.polling import Polling
from moldau.client.consumer.records import PartitionRecords
from moldau.records import ConsumerRecord, K, V

_BETWEEN_LOOKS: Final = 64
"""At most this many records are returned between two checks of the clock."""


class RecordStream(Generic[K, V]):
    """An iterator over single records. Records left over stay in `out` for the next reader."""

    __slots__ = ("_between_looks", "_count_max", "_out", "_polling", "_records")

    def __init__(self, polling: Polling, count_max: int) -> None:
        """Let a poll take at most `count_max` records."""
        self._polling = polling
        self._out = polling.out
        self._count_max = count_max
        self._between_looks = 1
        self._records: Iterator[ConsumerRecord] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        for record in self._records:  # a close empties it
            return record
        return await self._fetched()

    async def _fetched(self) -> ConsumerRecord[K, V]:
        if await self._polling.give_way_if_due():
            self._between_looks = max(1, self._between_looks // 2)
        else:
            self._between_looks = min(_BETWEEN_LOOKS, self._between_looks * 2)
        while True:
            if self._polling.is_closing:
                raise StopAsyncIteration
            self._polling.asks()
            self._records = self._out.some_records(self._between_looks)
            for record in self._records:
                return record
            self._out.add(await self._polling.more(self._count_max, None))
            await self._polling.give_way_if_due()


class PartStream(Generic[K, V]):
    """An iterator over parts of one partition each. The rest stays in `out` for the next reader."""

    __slots__ = ("_chosen", "_count_max", "_part_max", "_polling")

    def __init__(
        self, polling: Polling, count_max: int, *, part_max: int = sys.maxsize, chosen: Chosen
    ) -> None:
        """Let a poll take at most `count_max` records, and a part hold at most `part_max`."""
        self._polling = polling
        self._count_max = count_max
        self._part_max = part_max
        self._chosen = chosen

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PartitionRecords[K, V]:
        while True:
            await self._polling.give_way_if_due()
            if self._polling.is_closing:
                raise StopAsyncIteration
            self._polling.asks()
            part = self.at_hand()
            if part is not None:
                return part
            await self.fill()

    def at_hand(self) -> PartitionRecords[K, V] | None:
        """Return the next part if it needs no poll. Thread-safe if `out` has a lock."""
        return self._polling.out.take_part(self._part_max, self._chosen)

    async def fill(self) -> None:
        """Poll, so that `at_hand` has parts."""
        self._polling.out.add(await self._polling.more(self._count_max, self._chosen))
