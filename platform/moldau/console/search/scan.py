"""Reads the windows of a sweep, and asks a filter which records match.

Invariants: no more than SLICE_S at a time goes into records before others that wait for the event
loop have their turn. A window that is not read to its end, as the scan was told to stop, does not
count. Of the messages of a window no more are kept than the page may show; a sweep that shows no
page keeps none, and has them as they are read. A scan that comes no further for STUCK_S fails.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from moldau.errors import MoldauError
from moldau.link.metadata import TopicPartition

if TYPE_CHECKING:
    from moldau.client import Consumer
    from moldau.console.search.matching import SearchFilter
    from moldau.console.search.message import Message
    from moldau.console.search.sweep import Sweep, Window
    from moldau.runtime import Clock

SLICE_S: Final = 0.003
SLICE_RECORDS: Final = 4_000
STUCK_S: Final = 30.0
"""How long partitions may give nothing. A leader that is elected anew takes less."""
_POLL_S: Final = 0.5
_TURNS: Final = 2
"""How often others have their turn between two slices: an answer to a page goes through several."""


class Pace:
    """Lets others work between slices."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()

    async def rest(self) -> None:
        """Give way if the slice is over."""
        if self._clock.monotonic() - self._began < SLICE_S:
            return
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._began = self._clock.monotonic()


class _Reading:
    """A window that is being read."""

    def __init__(self, window: Window, most: int, *, is_back: bool) -> None:
        """Keep the last messages if the sweep goes back, else the first ones: `most` of them."""
        self.window = window
        self.records = 0
        self.messages: deque[Message] = deque(maxlen=most)
        self.edge_ms: int | None = None
        self._most = most
        self._is_back = is_back

    def keep(self, found: Iterable[Message]) -> None:
        """Take messages that are behind those before."""
        room = None if self._is_back else self._most - len(self.messages)
        self.messages.extend(islice(found, room))


class Scan:
    """One sweep over a topic, by a consumer that is used for nothing else meanwhile."""

    def __init__(
        self,
        consumer: Consumer[bytes, bytes],
        clock: Clock,
        topic: str,
        sweep: Sweep,
        matching: SearchFilter,
    ) -> None:
        self._consumer = consumer
        self._clock = clock
        self._topic = topic
        self._sweep = sweep
        self._matching = matching
        self._pace = Pace(clock)

    async def run(self, is_over: Callable[[], bool]) -> bool:
        """Read until the sweep is done. Return False if `is_over` has ended it before. Raise
        MoldauError if it comes no further."""
        async for _ in self.messages(is_over):
            pass
        return self._sweep.is_done

    async def messages(self, is_over: Callable[[], bool]) -> AsyncGenerator[list[Message]]:
        """Yield the messages of a partition as they are read, in the order of their offsets within
        each window, also of a window that is not read to its end. Raise MoldauError if the
        partitions that are left give nothing for STUCK_S."""
        sweep, moved = self._sweep, self._clock.monotonic()
        while (chosen := sweep.ready(self._clock.monotonic())) and not is_over():
            readings = {
                TopicPartition(self._topic, each.partition): _Reading(
                    each, sweep.kept, is_back=sweep.is_back
                )
                for each in chosen
            }
            self._seek(readings)
            while True:
                for place in [each for each in readings if self._is_read(each, readings[each])]:
                    done = readings.pop(place)
                    sweep.on_window(done.window, done.records, [*done.messages], done.edge_ms)
                if not readings:
                    break
                if is_over():
                    return
                before = self._positions(readings)
                async for found in self._read(readings):
                    yield found
                now = self._clock.monotonic()
                if self._positions(readings) != before:
                    moved = now
                elif now - moved > STUCK_S:
                    raise self._stuck(readings)

    def _seek(self, readings: dict[TopicPartition, _Reading]) -> None:
        consumer = self._consumer
        if set(consumer.assignment) != readings.keys():
            consumer.assign(list(readings))
        for place, reading in readings.items():
            if consumer.position(place) != reading.window.low:
                consumer.seek(place, reading.window.low)

    def _is_read(self, place: TopicPartition, reading: _Reading) -> bool:
        _, low, high = reading.window
        return low >= high or (self._consumer.position(place) or 0) >= high

    def _positions(self, places: Iterable[TopicPartition]) -> list[int | None]:
        return [self._consumer.position(each) for each in places]

    def _stuck(self, readings: dict[TopicPartition, _Reading]) -> MoldauError:
        place, reading = next(iter(readings.items()))
        return MoldauError(
            f"nothing was read for {STUCK_S:.0f} s: the leader does not answer, or the topic was "
            "deleted or made anew: load the page again",
            topic=place.topic,
            partition=place.partition,
            offset=self._consumer.position(place),
            end=reading.window.high,
        )

    async def _read(
        self, readings: dict[TopicPartition, _Reading]
    ) -> AsyncGenerator[list[Message]]:
        """Read some records of the windows."""
        parts = await self._consumer.poll_batches(
            _POLL_S, max_records=SLICE_RECORDS, partitions=list(readings)
        )
        for part in parts:
            reading = readings[TopicPartition(part.topic, part.partition)]
            _, low, high = reading.window
            count, found = await self._matching.chosen(part, low, high, self._pace.rest)
            reading.records += count
            reading.keep(found)
            self._note_edge(reading, part.offsets, part.timestamps)
            yield found
            await self._pace.rest()

    def _note_edge(
        self, reading: _Reading, offsets: Sequence[int], timestamps: Sequence[int]
    ) -> None:
        """Note the time of the record at the edge of the window to which the sweep goes."""
        _, low, high = reading.window
        first, behind = bisect_left(offsets, low), bisect_left(offsets, high)
        if first == behind:
            return
        if not self._sweep.is_back:
            reading.edge_ms = timestamps[behind - 1]
        elif reading.edge_ms is None:
            reading.edge_ms = timestamps[first]
