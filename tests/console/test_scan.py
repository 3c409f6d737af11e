"""The windows of a sweep as they are read: what is kept of them, and when reading gives up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final

import pytest

from moldau.client.base.columns import PartitionColumns
from moldau.client.consumer.records import FetchedRecords
from moldau.console.pages.messages import tail
from moldau.console.search.matching import SearchFilter
from moldau.console.search.message import Message
from moldau.console.search.query import MessageQuery
from moldau.console.search.scan import STUCK_S, Scan
from moldau.console.search.searches import SearchedPart, Searches
from moldau.console.search.sweep import SHOWN, Sweep, Window
from moldau.errors import MoldauError
from moldau.link.metadata import TopicPartition
from moldau.records.builder import BatchBuilder
from tests.console.hand_clock import HandClock

PLACE: Final = TopicPartition("t", 0)
POLLED: Final = 100
"""Records of a poll."""


class Log:
    """A consumer of one partition with records up to `end`."""

    def __init__(self, end: int, clock: HandClock) -> None:
        self.assignment: set[TopicPartition] = set()
        self._at = 0
        self._end = end
        self._clock = clock

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.assignment = set(places)

    def position(self, place: TopicPartition) -> int:
        return self._at

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._at = offset

    async def beginning_offsets(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self._end)

    async def poll_batches(
        self, timeout_s: float, *, max_records: int, partitions: Collection[TopicPartition]
    ) -> list[PartitionColumns]:
        await asyncio.sleep(0)
        count = min(POLLED, self._end - self._at)
        if count <= 0:
            self._clock.now_s += timeout_s
            return []
        builder = BatchBuilder()
        for at in range(self._at, self._at + count):
            builder.append(at, b"k", b"v%d" % at, ())
        data = bytes(builder.build(self._at))
        found = FetchedRecords(PLACE, self._at, data, None, self._end)
        columns = found.take_columns(count, check_crc=True)
        assert columns is not None
        self._at += count
        return [columns]


class NotingSweep(Sweep):
    """A sweep that notes how many messages it is given at once."""

    most_given = 0

    def on_window(
        self, window: Window, records: int, messages: list[Message], time_ms: int | None
    ) -> None:
        self.most_given = max(self.most_given, len(messages))
        super().on_window(window, records, messages, time_ms)


def scan_of(sweep: Sweep, end: int, clock: HandClock | None = None) -> Scan:
    now = HandClock() if clock is None else clock
    consumer: Any = Log(end, now)
    return Scan(consumer, now, "t", sweep, SearchFilter(None, None, "offset >= 0"))


def never() -> bool:
    return False


def test_a_page_keeps_no_more_of_a_window_than_it_may_show() -> None:
    async def run(*, is_back: bool) -> list[int]:
        sweep = NotingSweep({0: 0}, {0: 5_000}, is_back=is_back, most=SHOWN)
        sweep._width = 5_000  # as after some quick rounds
        assert await scan_of(sweep, 5_000).run(never)
        assert sweep.most_given == SHOWN + 1
        return [each.offset for each in sweep.page(newest_first=is_back).messages]

    assert asyncio.run(run(is_back=True)) == [*range(4_999, 4_999 - SHOWN, -1)]
    assert asyncio.run(run(is_back=False)) == [*range(SHOWN)]


def test_a_download_has_messages_as_they_are_read_and_keeps_none() -> None:
    async def run() -> None:
        sweep = NotingSweep({0: 0}, {0: 5_000}, is_back=False, most=None)
        seen, longest = list[int](), 0
        async for messages in scan_of(sweep, 5_000).messages(never):
            seen += [each.offset for each in messages]
            longest = max(longest, len(messages))
        assert seen == [*range(5_000)]
        assert longest <= POLLED
        assert sweep.most_given == 0
        assert sweep.records == 5_000

    asyncio.run(run())


@pytest.mark.parametrize("most", [SHOWN, None])
def test_a_partition_that_gives_nothing_more_fails_the_scan(most: int | None) -> None:
    """As of a topic that was made anew: it ends before the offset that the old one had."""

    async def run() -> None:
        clock = HandClock()
        sweep = Sweep({0: 0}, {0: 1_000}, is_back=False, most=most)
        with pytest.raises(MoldauError, match="nothing was read for 30 s"):
            await scan_of(sweep, 10, clock).run(lambda: clock.now_s > 10 * STUCK_S)
        assert sweep.records == 0, "its window was not read to its end"

    asyncio.run(run())


def test_a_download_that_the_end_of_the_console_cuts_off_fails() -> None:
    async def run() -> None:
        clock = HandClock()

        @asynccontextmanager
        async def consumer() -> AsyncIterator[Any]:
            yield Log(5_000, clock)

        connection: Any = SimpleNamespace(consumer=consumer, decoder=None, is_ending=False)
        runtime: Any = SimpleNamespace(clock=clock)
        wanted = SearchedPart("t", [0], MessageQuery(start="oldest"), None)

        async def read(most: int) -> int:
            count, connection.is_ending = 0, False
            made = Searches(connection, runtime)
            async for messages in made.exported("ann", wanted, made.export_filter("ann", wanted)):
                count += len(messages)
                connection.is_ending = count > most
            return count

        assert await read(5_000) == 5_000
        with pytest.raises(MoldauError, match="the console ends"):
            await read(1_000)

    asyncio.run(run())


def test_others_have_a_turn_between_the_records_that_are_followed() -> None:
    async def run() -> None:
        rests = 0

        class Pace:
            async def rest(self) -> None:
                nonlocal rests
                rests += 1

        class Follower(Log):
            async def end_offsets(
                self, places: Iterable[TopicPartition]
            ) -> dict[TopicPartition, int]:
                return dict.fromkeys(places, POLLED)

            async def poll(self, timeout_s: float, *, max_records: int) -> list[Any]:
                parts = await self.poll_batches(timeout_s, max_records=max_records, partitions=())
                return [SimpleNamespace(records=each.records()) for each in parts]

        @asynccontextmanager
        async def follower() -> AsyncIterator[Any]:
            yield Follower(2 * POLLED, HandClock())

        searches = SimpleNamespace(matching=lambda wanted: SearchFilter(None, None), pace=Pace)
        connection: Any = SimpleNamespace(searches=searches, follower=follower, is_ending=False)
        seen = 0
        async with aclosing(
            tail(connection, SearchedPart("t", [0], MessageQuery(), None))
        ) as followed:
            async for messages in followed:
                seen += len(messages)
                if seen == POLLED:
                    break
        assert rests == POLLED

    asyncio.run(run())
