"""Pages of messages: read while a visitor waits, or searched for in the background.

Without a filter a page is there at once. With one it may be anywhere in the topic: a search is a
task of its own, whose page grows while its visitor looks again and again, and is done when it is
full, or when the whole topic was read.

Invariants: a visitor has OF_VISITOR searches at most that read, and the console OF_ALL: one that a
visitor starts in place of an older one ends that. A search that was not looked at for GONE_S ends.
What it has found is kept for KEPT_S after the last look, for its own visitor alone, and only while
the same is hidden from it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.config.times import parse_time_ms
from moldau.console.pages.rendering import BadForm
from moldau.console.search.matching import SearchFilter
from moldau.console.search.query import MessageQuery, chosen, edge_of, edge_text
from moldau.console.search.scan import Pace, Scan
from moldau.console.search.sweep import MessagePage, Sweep
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.link.metadata import TopicPartition

if TYPE_CHECKING:
    from moldau.client import Consumer
    from moldau.console.access.masks import Mask
    from moldau.console.connection import Connection
    from moldau.console.search.message import Message
    from moldau.runtime import Clock, Runtime

PAGE_S: Final = 3.0
"""How long a page without a filter is read."""
AT_ONCE_S: Final = 1.0
"""How long an answer waits for a search that has just begun: most topics are small."""
OF_VISITOR: Final = 2
OF_ALL: Final = 8
ENDED_OF_VISITOR: Final = 4
"""The searches of a visitor. Their pages are kept after they have ended."""
GONE_S: Final = 75.0
"""Browsers let a page that is not on top ask once a minute."""
KEPT_S: Final = 180.0
_ID_BYTES: Final = 12


class SearchState(Enum):
    """What a search does."""

    READS = "reads"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class SearchedPart(NamedTuple):
    """A part of a topic, and what of it a visitor may see."""

    topic: str
    indexes: Sequence[int]
    query: MessageQuery
    mask: Mask | None


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """A page of messages, and how much was read for it."""

    page: MessagePage = field(default_factory=MessagePage)
    scanned: int = 0
    covered: int = 0
    """Offsets that were read, of `total`: some have no record."""
    total: int = 0
    state: SearchState = SearchState.DONE
    seconds: float = 0.0
    note: str = ""
    older: str = ""
    newer: str = ""
    """The queries of the pages before and behind; empty if there are none."""

    @property
    def messages(self) -> list[Message]:
        """The messages, in their order."""
        return self.page.messages

    @property
    def is_cut(self) -> bool:
        """Whether reading was stopped before the page was full or the part was read."""
        return self.state is SearchState.STOPPED

    @property
    def per_second(self) -> float | None:
        """Records read a second."""
        return self.scanned / self.seconds if self.seconds > 0 else None


class _Bounds(NamedTuple):
    """The offsets of a topic's partitions."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]


class _Run:
    """One reading of a page: its sweep, and what is known of the topic around it."""

    def __init__(self, wanted: SearchedPart, matching: SearchFilter, clock: Clock) -> None:
        self.wanted = wanted
        self.matching = matching
        self._clock = clock
        self._began = clock.monotonic()
        self._ended: float | None = None
        self._bounds = _Bounds({}, {})
        self.sweep = Sweep({}, {}, is_back=wanted.query.is_back)

    async def run(self, consumer: Consumer[bytes, bytes], is_over: Callable[[], bool]) -> bool:
        """Read. Return whether it came to its end. Raise BadForm for a time that is none."""
        try:
            self._bounds = await _bounds(consumer, self.wanted)
            low, high = await _edges(consumer, self.wanted, self._bounds, self._clock.wall_ms())
            self.sweep = Sweep(low, high, is_back=self.wanted.query.is_back)
            topic = self.wanted.topic
            return await Scan(consumer, self._clock, topic, self.sweep, self.matching).run(is_over)
        finally:
            self._ended = self._clock.monotonic()

    def found(self, state: SearchState, note: str = "") -> FoundMessages:
        """Return the page so far."""
        query, sweep = self.wanted.query, self.sweep
        page = sweep.page(newest_first=query.is_newest_first)
        ended = self._clock.monotonic() if self._ended is None else self._ended
        begins, ends = self._bounds
        has_older = any(offset > begins[each] for each, offset in page.low.items())
        has_newer = any(offset < ends[each] for each, offset in page.high.items())
        older = query.address(before=edge_text(page.low), after="")
        newer = query.address(after=edge_text(page.high), before="")
        return FoundMessages(
            page,
            sweep.records,
            sweep.covered,
            sweep.total,
            state,
            ended - self._began,
            note or self.matching.note,
            older if has_older else "",
            newer if has_newer else "",
        )


class Search:
    """A search of one visitor, in the background."""

    def __init__(self, key: str, owner: str, run: _Run, clock: Clock) -> None:
        self.key = key
        self.owner = owner
        self.query = run.wanted.query
        self.topic = run.wanted.topic
        self.mask = run.wanted.mask
        self._run = run
        self._clock = clock
        self._looked_at = clock.monotonic()
        self._state = SearchState.READS
        self._is_stopped = False
        self._problem = ""
        self.ended = asyncio.Event()

    @property
    def is_reading(self) -> bool:
        """Whether it still reads."""
        return self._state is SearchState.READS

    def is_like(self, owner: str, wanted: SearchedPart) -> bool:
        """Whether it reads what a visitor asks for."""
        own = (self.owner, self.topic, self.query, self.mask)
        return self.is_reading and own == (owner, wanted.topic, wanted.query, wanted.mask)

    def is_ended_of(self, owner: str) -> bool:
        """Whether it is of a visitor, and reads no more."""
        return self.owner == owner and not self.is_reading

    @property
    def idle_s(self) -> float:
        """How long its visitor has not looked."""
        return self._clock.monotonic() - self._looked_at

    def look(self) -> FoundMessages:
        """Return what was found so far. Its visitor is there."""
        self._looked_at = self._clock.monotonic()
        return self._run.found(self._state, self._problem)

    def stop(self) -> None:
        """End it soon."""
        self._is_stopped = True

    def is_over(self) -> bool:
        """Whether it has to end: it was stopped, or its visitor is gone."""
        return self._is_stopped or self.idle_s > GONE_S

    async def read(self, connection: Connection) -> None:
        """Read until it is done, or has to end."""

        def is_over() -> bool:
            return self.is_over() or connection.is_ending

        self._state = SearchState.READS
        state = SearchState.FAILED
        try:
            async with connection.consumer() as consumer:
                is_whole = await self._run.run(consumer, is_over)
            state = SearchState.DONE if is_whole else SearchState.STOPPED
        except (MoldauError, BadForm, ValueError) as error:
            self._problem = str(error)
        finally:
            self._state = state
            self.ended.set()


class Searches:
    """The pages of messages of one console, and its searches."""

    def __init__(self, connection: Connection, runtime: Runtime) -> None:
        self._connection = connection
        self._runtime = runtime
        self._clock = runtime.clock
        self._searches: dict[str, Search] = {}
        self._exports = Counter[str]()

    async def page(self, wanted: SearchedPart) -> FoundMessages:
        """Return a page, read now and for PAGE_S at most. Raise BadForm."""
        matching = self.matching(wanted)
        until = self._clock.monotonic() + PAGE_S
        run = _Run(wanted, matching, self._clock)
        async with self._connection.consumer() as consumer:
            is_whole = await run.run(consumer, lambda: self._clock.monotonic() > until)
        return run.found(SearchState.DONE if is_whole else SearchState.STOPPED)

    def matching(self, wanted: SearchedPart, *, whole: bool = False) -> SearchFilter:
        """Return the filter for what is wanted. Raise BadForm if that cannot be read."""
        query = wanted.query
        chosen(wanted.indexes, query.partition)
        if query.start == "time":
            _time_of(query, self._clock.wall_ms())
        decoder = self._connection.decoder
        return SearchFilter(decoder, wanted.mask, query.where, query.text, whole=whole)

    async def start(self, owner: str, wanted: SearchedPart) -> Search:
        """Start a search. Return it when it is done, or after AT_ONCE_S. Raise BadForm."""
        matching = self.matching(wanted)
        for each in self._searches.values():
            if each.is_like(owner, wanted) and not each.is_over():
                return each
        self._make_room(owner)
        key = self._runtime.random.randbytes(_ID_BYTES).hex()
        search = Search(key, owner, _Run(wanted, matching, self._clock), self._clock)
        self._searches[key] = search
        self._runtime.spawn(search.read(self._connection), name="search a topic")
        try:
            async with asyncio.timeout(AT_ONCE_S):
                await search.ended.wait()
        except TimeoutError:
            pass
        return search

    def of(self, owner: str, key: str, topic: str, mask: Mask | None) -> Search | None:
        """Return a search of a visitor through a topic of which this is hidden; None if it has none
        of this key, or no more."""
        self._forget()
        found = self._searches.get(key)
        if found is None:
            return None
        return found if (found.owner, found.topic, found.mask) == (owner, topic, mask) else None

    def _make_room(self, owner: str) -> None:
        """End the oldest search of a visitor that has too many. Raise BadForm if others have."""
        self._forget()
        ended = [key for key, each in self._searches.items() if each.is_ended_of(owner)]
        for key in ended[: max(0, len(ended) - ENDED_OF_VISITOR + 1)]:
            del self._searches[key]
        reading = [each for each in self._searches.values() if each.is_reading]
        own = [each for each in reading if each.owner == owner and not each.is_over()]
        for each in own[: max(0, len(own) - OF_VISITOR + 1)]:
            each.stop()
            reading.remove(each)
        if len(reading) >= OF_ALL:
            raise BadForm(
                f"where: {OF_ALL} searches of other visitors are running: try again in a moment"
            )

    def _forget(self) -> None:
        gone = [
            key
            for key, each in self._searches.items()
            if not each.is_reading and each.idle_s > KEPT_S
        ]
        for key in gone:
            del self._searches[key]

    def pace(self) -> Pace:
        """Return a pace for work on what was found."""
        return Pace(self._clock)

    def export_filter(self, owner: str, wanted: SearchedPart) -> SearchFilter:
        """Return the filter for `exported`. Raise BadForm if that would."""
        if self._exports[owner] >= OF_VISITOR:
            raise BadForm(f"{OF_VISITOR} downloads of yours are running: wait for one of them")
        return self.matching(wanted, whole=True)

    async def exported(
        self, owner: str, wanted: SearchedPart, matching: SearchFilter
    ) -> AsyncGenerator[list[Message]]:
        """Yield all messages of a part, the oldest of each partition first, with all of their
        texts. Raise BadForm, and MoldauError if it ends before all was read."""
        connection = self._connection
        self._exports[owner] += 1
        try:
            async with connection.consumer() as consumer:
                bounds = await _bounds(consumer, wanted)
                low, high = await _edges(consumer, wanted, bounds, self._clock.wall_ms())
                sweep = Sweep(low, high, is_back=False, most=None)
                scan = Scan(consumer, self._clock, wanted.topic, sweep, matching)
                async with aclosing(scan.messages(lambda: connection.is_ending)) as found:
                    async for messages in found:
                        yield messages
                if not sweep.is_done:
                    raise MoldauError("the console ends: what follows was not read")
        finally:
            self._exports[owner] -= 1


async def _bounds(consumer: Consumer[bytes, bytes], wanted: SearchedPart) -> _Bounds:
    indexes = chosen(wanted.indexes, wanted.query.partition)
    places = [TopicPartition(wanted.topic, each) for each in indexes]
    ends = await consumer.end_offsets(places)
    begins = await consumer.beginning_offsets(places)
    return _Bounds(
        {each.partition: offset for each, offset in begins.items()},
        {each.partition: offset for each, offset in ends.items()},
    )


async def _edges(
    consumer: Consumer[bytes, bytes], wanted: SearchedPart, bounds: _Bounds, now_ms: int
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the offsets between which a page lies. Raise BadForm for a time that is none."""
    query, begins, ends = wanted.query, bounds.begins, bounds.ends
    low, high = dict(begins), dict(ends)
    before, after = edge_of(query.before), edge_of(query.after)
    if before:
        high = {each: before.get(each, begins[each]) for each in ends}
    elif after:
        low = {each: after.get(each, begin) for each, begin in begins.items()}
    elif query.start == "offset":
        low = dict.fromkeys(begins, int(query.at))
    elif query.start == "time":
        low = await _from_time(consumer, wanted, ends, now_ms)
    low = {each: min(max(offset, begins[each]), ends[each]) for each, offset in low.items()}
    high = {each: min(max(offset, low[each]), ends[each]) for each, offset in high.items()}
    return low, high


async def _from_time(
    consumer: Consumer[bytes, bytes], wanted: SearchedPart, ends: Mapping[int, int], now_ms: int
) -> dict[int, int]:
    at_ms = _time_of(wanted.query, now_ms)
    places = {TopicPartition(wanted.topic, each): at_ms for each in ends}
    found = await consumer.offsets(places)
    return {
        place.partition: each.offset if each.offset >= 0 else ends[place.partition]
        for place, each in found.items()
    }


def _time_of(query: MessageQuery, now_ms: int) -> int:
    try:
        return parse_time_ms(query.at, now_ms)
    except ValueError as error:
        raise BadForm(f"time: {error}") from error
