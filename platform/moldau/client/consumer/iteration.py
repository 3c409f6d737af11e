"""Going through what a consumer reads, with `async for` or `anext`.

Invariants: a wait that is cancelled (`asyncio.wait_for(anext(records), 1.0)`) loses nothing and
ends nothing: the next `anext` goes on from there. An asynchronous generator could not promise that,
for whatever it lets through is its end. What was polled and not given lies in the consumer's
`RecordsOut`, never in a stream: there commits, seeks and the next reader see it. Both end when the
consumer is closed, and not before: what lies there then is not committed, and others read it.
However much one poll gave, the rest of the loop has its turn between two parts, and between two
records, if it is time for one. A look at the clock would cost more than the record, so some share
one: the more of them, up to `_BETWEEN_LOOKS`, the faster they went by lately. So where each takes
long, there is a turn after each; only when they become slow of a sudden, some go by without.

Who asks for the next record or part is as much there as one who polls. That costs no record
anything either: the member looks now and then whether another one was given (`given_last`). When a
rebalance wants the user's attention, `RecordsOut.need_poll` takes the rest away from the streams:
they run dry, and so poll, in which it is served, before they give what is left.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Protocol, Self

from moldau.client.consumer.records import PartitionRecords
from moldau.client.consumer.taken import Chosen, RecordsOut
from moldau.records import ConsumerRecord

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
        """Lets the rest of the loop have its turn, if it waits for it; whether it has had one."""


class RecordStream:
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

    async def __anext__(self) -> ConsumerRecord:
        for record in self._records:  # which a close takes away
            return record
        return await self._fetched()

    async def _fetched(self) -> ConsumerRecord:
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


class PartStream:
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

    async def __anext__(self) -> PartitionRecords:
        while True:
            await self._reader._give_way_if_due()
            if self._reader._is_closing:
                raise StopAsyncIteration
            self._reader._asks()
            part = self.at_hand()
            if part is not None:
                return part
            await self.fill()

    def at_hand(self) -> PartitionRecords | None:
        """The next part if that needs no poll; a thread may ask, where `out` has a lock."""
        return self._out.take_part(self._count_max, self._chosen)

    async def fill(self) -> None:
        """Polls for `at_hand`."""
        self._out.add(await self._poll() or ())
