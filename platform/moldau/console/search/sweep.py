"""The way of a search through the partitions of a topic, window by window, and the page that comes
of it. A pure core.

A sweep goes back from the ends, or forward from the beginnings. In each round every partition that
is not done gets the next window of its offsets; windows become wider while they are read fast.
Where a log was compacted, or has the marks of transactions, a window has fewer records than
offsets.

The page has the messages nearest to where the sweep began: the partitions are merged by time, as
each has them in the order of its offsets. So what a page shows of a partition has no gap, and the
offsets at both edges of the page are where the pages before and behind it begin: none misses a
message, and none repeats one.

Invariants: a window counts as read when all of it was; a partition whose next window is behind the
last message of a full page is not read further.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import islice
from typing import Final, NamedTuple

from moldau.console.search.message import Message
from moldau.deferred import dataclass

SHOWN: Final = 50
WIDER: Final = 4
"""How many times as wide as the window before it the next one is."""
WIDE: Final = 1 << 17
"""The widest windows: the offsets of all partitions that are read at once."""
QUICK_S: Final = 0.25
SLOW_S: Final = 1.0
"""Windows become wider after a round that took less, and narrower after one that took more."""
_SPARE: Final = 4
"""How many times as many messages as a page shows are kept before some are dropped."""
AT_ONCE: Final = 8
"""Partitions that are read at once. For each, two fetches are in memory."""


class Window(NamedTuple):
    """Offsets of a partition that are read as a whole."""

    partition: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in the order in which they are shown, and the offsets at its edges: `low` is the
    first one that the page covers, `high` the first one behind it."""

    messages: list[Message] = field(default_factory=list)
    low: Mapping[int, int] = field(default_factory=dict)
    high: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Lane:
    """One partition of a sweep. `at` is the edge of what was read."""

    low: int
    high: int
    at: int
    found: list[Message] = field(default_factory=list)
    """In the direction of the sweep."""
    time_ms: int | None = None
    """The time of the record at the edge, None before there was one."""


class Sweep:
    """One sweep. Without `most` it reads everything, and keeps no message."""

    def __init__(
        self,
        low: Mapping[int, int],
        high: Mapping[int, int],
        *,
        is_back: bool,
        most: int | None = SHOWN,
    ) -> None:
        """Read the offsets between `low` and `high` of each partition."""
        self.is_back = is_back
        self.records = 0
        """How many records were read."""
        self._most = most
        self._lanes = {
            each: _Lane(low[each], max(low[each], high[each]), high[each] if is_back else low[each])
            for each in low
            if each in high
        }
        self.total = sum(each.high - each.low for each in self._lanes.values())
        """The offsets in all."""
        self._width = SHOWN
        self._round: list[Window] = []
        self._began: float | None = None

    @property
    def kept(self) -> int:
        """How many messages of a window it takes."""
        return 0 if self._most is None else self._most + 1

    @property
    def covered(self) -> int:
        """The offsets that were read."""
        lanes = self._lanes.values()
        return sum(each.high - each.at if self.is_back else each.at - each.low for each in lanes)

    @property
    def is_done(self) -> bool:
        """Whether the page is full, or everything was read."""
        return not self._round and not self._open()

    def ready(self, now: float) -> list[Window]:
        """Return the windows to read now, of AT_ONCE partitions at most; none if it is done. `now`
        is in seconds."""
        if not self._round:
            if self._began is not None:
                self._fit(now - self._began)
            self._began = now
            self._round = list(self._windows())
        return self._round[:AT_ONCE]

    def _fit(self, took_s: float) -> None:
        """Fit the width of the next round to the time of the last one."""
        if took_s < QUICK_S:
            self._width = min(self._width * WIDER, WIDE)
        elif took_s > SLOW_S:
            self._width = max(SHOWN, self._width // WIDER)

    def _windows(self) -> Iterator[Window]:
        lanes = self._open()
        width = min(self._width, WIDE // max(1, min(len(lanes), AT_ONCE)))
        for partition, lane in lanes.items():
            if self.is_back:
                yield Window(partition, max(lane.low, lane.at - width), lane.at)
            else:
                yield Window(partition, lane.at, min(lane.high, lane.at + width))

    def _open(self) -> dict[int, _Lane]:
        """Return the partitions that have to be read further."""
        left = {
            index: lane
            for index, lane in self._lanes.items()
            if (lane.at > lane.low if self.is_back else lane.at < lane.high)
        }
        if self._most is None or not left:
            return left
        shown = self._merged()
        if len(shown) < self._most:
            return left
        last = shown[-1]
        return {index: lane for index, lane in left.items() if self._is_before(index, lane, last)}

    def _is_before(self, index: int, lane: _Lane, last: Message) -> bool:
        """Whether messages of a partition may have to be shown before the last one."""
        if lane.time_ms is None:
            return True
        if index == last.partition:
            return False  # the page has it up to there
        edge = lane.time_ms
        return edge > last.timestamp_ms if self.is_back else edge < last.timestamp_ms

    def on_window(
        self, window: Window, records: int, messages: list[Message], time_ms: int | None
    ) -> None:
        """A window was read: it has so many records, these messages in the order of their offsets
        (`kept` of those where the sweep comes to it are enough), and at the edge to which the sweep
        goes a record of this time."""
        self._round.remove(window)
        lane = self._lanes[window.partition]
        lane.at = window.low if self.is_back else window.high
        if time_ms is not None:
            lane.time_ms = time_ms
        self.records += records
        if self._most is None:
            return
        lane.found += reversed(messages) if self.is_back else messages
        del lane.found[self._most + 1 :]
        if sum(len(each.found) for each in self._lanes.values()) > _SPARE * self._most:
            self._drop_unshown()

    def _drop_unshown(self) -> None:
        """Drop what the page will never show. Of each partition the next message stays: it tells
        that the page ends before it, and what is found behind it is not shown either."""
        counts = Counter(each.partition for each in self._merged())
        for index, lane in self._lanes.items():
            del lane.found[counts[index] + 1 :]

    def _merged(self) -> list[Message]:
        lanes = [each.found for each in self._lanes.values()]
        merged = heapq.merge(*lanes, key=lambda each: each.timestamp_ms, reverse=self.is_back)
        return list(islice(merged, self._most))

    def page(self, *, newest_first: bool) -> MessagePage:
        """Return what was found so far."""
        shown = self._merged()
        counts = Counter(each.partition for each in shown)
        edges = {
            index: _edge(lane, counts[index], is_back=self.is_back)
            for index, lane in self._lanes.items()
        }
        if newest_first is not self.is_back:
            shown.reverse()
        lows = {index: lane.low for index, lane in self._lanes.items()}
        highs = {index: lane.high for index, lane in self._lanes.items()}
        return MessagePage(shown, edges, highs) if self.is_back else MessagePage(shown, lows, edges)


def _edge(lane: _Lane, shown: int, *, is_back: bool) -> int:
    """Return the offset up to which a page covers a partition, with so many of its messages."""
    if shown == len(lane.found):
        return lane.at
    if not shown:
        return lane.high if is_back else lane.low
    last = lane.found[shown - 1].offset
    return last if is_back else last + 1
