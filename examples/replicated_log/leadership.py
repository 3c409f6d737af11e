"""The state of a leader during its epoch: how far each follower is, and which clients wait.

Invariant: a follower's `match` only grows, and all below it equals our log and is durable there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Follower:
    """One follower as its leader sees it. It has at most one request in progress."""

    next_offset: int
    """The offset of the first record to send next."""
    match: int = 0
    """The follower holds everything below this offset."""
    asked: tuple[int, int] | None = None
    """Base and end of the last request, while it is unanswered. Answers to earlier requests may
    still come: they never cause a request, or each heartbeat to a slow follower would multiply."""

    def on_accepted(self, base: int, log_end: int) -> None:
        """The follower has confirmed everything below `log_end`."""
        if log_end > self.match:
            self.match = log_end
            if log_end > self.next_offset:
                self.next_offset = log_end
        if self.asked == (base, log_end):
            self.asked = None

    def on_refused(self, base: int, retry: int) -> None:
        """The records do not continue its log. Go back, but never below what it has confirmed."""
        if self.asked is not None and self.asked[0] == base:
            self.next_offset = max(self.match, min(base - 1, retry))
            self.asked = None


class Leadership:
    """The followers and waiting clients of one leader in one epoch."""

    def __init__(self, followers: Iterable[int], log_end: int) -> None:
        self.followers = {number: Follower(log_end) for number in followers}
        self._waiting: deque[tuple[int, object]] = deque()

    def majority_end(self, own_end: int) -> int:
        """Return the offset below which a majority, including this node, holds everything."""
        ends = sorted([own_end, *[follower.match for follower in self.followers.values()]])
        return ends[(len(ends) - 1) // 2]

    def wait(self, offset: int, client: object) -> None:
        """Let a client wait until the record at `offset` is committed."""
        self._waiting.append((offset, client))

    def take_answerable(self, high_watermark: int) -> list[tuple[int, object]]:
        """Remove the clients whose records are committed now; return each offset and client."""
        answerable = []
        while self._waiting and self._waiting[0][0] < high_watermark:
            answerable.append(self._waiting.popleft())
        return answerable

    def take_all(self) -> list[tuple[int, object]]:
        """Remove and return all clients that still wait, because the epoch is over."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting
