"""Going through what a consumer reads, with `async for` or `anext`.

Invariants: a cancelled wait (`asyncio.wait_for(anext(records), 1.0)`) loses nothing and ends
nothing; an asynchronous generator would end there. Records that were polled and not given lie in
the consumer's `RecordsOut`, where commits, seeks and the next reader see them. The rest of the loop
has its turn between two parts, and between two records if it is time for one: up to
`_BETWEEN_LOOKS` records share a look at the clock, fewer where each took long.

Asking for the next record or part is a sign of life, as a poll is: the member looks at `given_last`
now and then. If a rebalance waits for the user, `RecordsOut.need_poll` lets the streams run dry, so
that they poll before they give more.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Generic, Protocol, Self

from moldau.client.consumer.records import PartitionRecords
from moldau.client.consumer.taken import Chosen, RecordsOut
from moldau.records import ConsumerRecord, K, V

_BETWEEN_LOOKS: Final = 64
"""At most so many records are given between two looks at the clock."""

Poll = Callable[[], Awaitable["list[PartitionRecords] | None"]]
"""What came after a while, which may be nothing; None when the consumer is closed."""


class Reader(Protocol):
    """The consumer, as streams know it: a flag, for a call would cost more with every record."""

    _is_closing: bool
    _out: RecordsOut

    def _asks(self) -> None:
        """The present task asks for more. RuntimeError while another one does."""

    async def _give_way_if_due(self) -> bool:
        """Whether the rest of the loop has had its turn, which it has if it is due."""


class RecordStream(Generic[K, V]):
    """One by one. What is left in the middle lies in `out`, for whatever reads next."""

    __slots__ = ("_between_looks", "_out", "_poll", "_reader", "_records")

    def __init__(self, reader: Reader, poll: Poll) -> None:
        self._reader = reader
        self._out = reader._out
        self._poll = poll
        self._between_looks = 1
        self._records: Iterator[ConsumerRecord] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        for record in self._records:  # which a close takes away
            return record
        return await self._fetched()

    async def _fetched(self) -> ConsumerRecord[K, V]:
        if await self._reader._give_way_if_due():
            self._between_looks = max(1, self._between_looks // 2)
        else:
            self._between_looks = min(_BETWEEN_LOOKS, self._between_looks * 2)
        while True:
            if self._reader._is_closing:
                raise StopAsyncIteration
            self._reader._asks()
            self._records = self._out.some_records(self._between_looks)
            for record in self._records:
                return record
            self._out.add(await self._poll() or ())
            await self._reader._give_way_if_due()


class PartStream(Generic[K, V]):
    """By partition, one part at a time. The others lie in `out`, for whatever reads next."""

    __slots__ = ("_chosen", "_count_max", "_out", "_poll", "_reader")

    def __init__(
        self, reader: Reader, poll: Poll, count_max: int | None = None, chosen: Chosen = None
    ) -> None:
        """No part has more than `count_max` records, wherever it was polled."""
        self._chosen = chosen
        self._reader = reader
        self._out = reader._out
        self._poll = poll
        self._count_max = sys.maxsize if count_max is None else count_max

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PartitionRecords[K, V]:
        while True:
            await self._reader._give_way_if_due()
            if self._reader._is_closing:
                raise StopAsyncIteration
            self._reader._asks()
            part = self.at_hand()
            if part is not None:
                return part
            await self.fill()

    def at_hand(self) -> PartitionRecords[K, V] | None:
        """The next part if that needs no poll; a thread may ask, where `out` has a lock."""
        return self._out.take_part(self._count_max, self._chosen)

    async def fill(self) -> None:
        """Polls for `at_hand`."""
        self._out.add(await self._poll() or ())
