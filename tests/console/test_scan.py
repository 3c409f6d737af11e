"""The windows of a sweep as they are read: what is kept of them, and when reading gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, Final

from moldau.client.base.columns import PartitionColumns
from moldau.client.consumer.records import FetchedRecords
from moldau.console.search.matching import Matching
from moldau.console.search.message import Message
from moldau.console.search.scan import Scan
from moldau.console.search.sweep import SHOWN, Sweep, Window
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
    return Scan(consumer, now, "t", sweep, Matching(None, None, "offset >= 0"))


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
