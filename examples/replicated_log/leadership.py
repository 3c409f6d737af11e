"""What a leader knows for as long as it leads: how far each follower is, and who waits for what.

Invariant: a follower's `match` only grows, and all below it is equal to our log and durable there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Follower:
    """One follower as its leader sees it. It is asked one thing at a time."""

    next_offset: int
    """The first record to send next."""
    match: int = 0
    """It holds everything below."""
    asked: tuple[int, int] | None = None
    """Base and end of the last request, while it is unanswered. Answers to earlier ones may still
    come: they never make us send, or each heartbeat to a slow follower would multiply."""

    def on_accepted(self, base: int, log_end: int) -> None:
        """It has confirmed everything below `log_end`."""
        if log_end > self.match:
            self.match = log_end
            if log_end > self.next_offset:
                self.next_offset = log_end
        if self.asked == (base, log_end):
            self.asked = None

    def on_refused(self, base: int, retry: int) -> None:
        """What we sent does not continue its log; go back, never below what it confirmed."""
        if self.asked is not None and self.asked[0] == base:
            self.next_offset = max(self.match, min(base - 1, retry))
            self.asked = None


class Leadership:
    """One term of office."""

    def __init__(self, followers: Iterable[int], log_end: int) -> None:
        self.followers = {number: Follower(log_end) for number in followers}
        self._waiting: deque[tuple[int, object]] = deque()

    def majority_end(self, own_end: int) -> int:
        """The offset below which a majority, we among them, holds everything."""
        ends = sorted([own_end, *[follower.match for follower in self.followers.values()]])
        return ends[(len(ends) - 1) // 2]

    def wait(self, offset: int, client: object) -> None:
        """A client waits until the record at `offset` is kept for good."""
        self._waiting.append((offset, client))

    def take_answerable(self, high_watermark: int) -> list[tuple[int, object]]:
        """The clients whose record is kept now, and its offset."""
        answerable = []
        while self._waiting and self._waiting[0][0] < high_watermark:
            answerable.append(self._waiting.popleft())
        return answerable

    def take_all(self) -> list[tuple[int, object]]:
        """Everyone who still waits: the term is over."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting
