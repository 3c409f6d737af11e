"""Going through what a consumer reads, with `async for` or `anext`.

Invariant: a wait that is cancelled (`asyncio.wait_for(anext(records), 1.0)`) loses nothing and ends
nothing: the next `anext` goes on from there. An asynchronous generator could not promise that, for
whatever it lets through is its end. Both end when the consumer is closed, and not before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Self

from moldau.client.fetched import PartitionRecords
from moldau.client.records_out import ConsumerRecord, RecordsOut

Poll = Callable[[], Awaitable["list[PartitionRecords] | None"]]
"""What came after a while, which may be nothing; None when the consumer is closed."""


class RecordStream:
    """One by one. What is left in the middle lies in `out`, for whatever reads next."""

    __slots__ = ("_out", "_poll", "_records")

    def __init__(self, out: RecordsOut, poll: Poll) -> None:
        self._out = out
        self._poll = poll
        self._records: Iterator[ConsumerRecord] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        for record in self._records:
            return record
        return await self._fetched()

    async def _fetched(self) -> ConsumerRecord:
        while True:
            self._records = self._out.records()
            for record in self._records:
                return record
            parts = await self._poll()
            if parts is None:
                raise StopAsyncIteration
            self._out.add(parts)


class PartStream:
    """By partition."""

    __slots__ = ("_parts", "_poll")

    def __init__(self, poll: Poll) -> None:
        self._poll = poll
        self._parts: deque[PartitionRecords] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PartitionRecords:
        while not self._parts:
            parts = await self._poll()
            if parts is None:
                raise StopAsyncIteration
            self._parts.extend(parts)
        return self._parts.popleft()
