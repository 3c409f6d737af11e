"""The deadlines of a group's members.

Postponing a deadline (every heartbeat does this for the session) only changes a dictionary. Its
heap entry stays where it was, and `next_ms` corrects it when it comes up. So a heartbeat costs no
heap operation.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import heappop, heappush, heapreplace
from typing import TypeAlias


class Due(StrEnum):
    """The kind of a deadline. A string, because its hash needs no call of Python code."""

    SESSION = "session"  # any request that shows that the member is alive
    REBALANCE = "rebalance"  # the revocation of partitions
    JOIN = "join"  # the next join of a classic member
    SYNC = "sync"  # the sync of a classic member


Key: TypeAlias = tuple[Due, str]


class Deadlines:
    """The deadlines of one group's members, at most one of each kind for each member."""

    __slots__ = ("_at", "_heap", "_queued", "has_news")

    def __init__(self) -> None:
        self._at: dict[Key, int] = {}
        self._heap: list[tuple[int, Key]] = []
        self._queued: dict[Key, int] = {}
        self.has_news = False
        """Whether the earliest deadline may be nearer than the last result of `next_ms`."""

    def set(self, due: Due, member_id: str, at_ms: int) -> None:
        """Set or move a deadline."""
        key = due, member_id
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            self.has_news = True
            heappush(self._heap, (at_ms, key))

    def has(self, due: Due, member_id: str) -> bool:
        """Whether this deadline is set."""
        return (due, member_id) in self._at

    def cancel(self, due: Due, member_id: str) -> None:
        """Cancel a deadline, if it is set."""
        self._at.pop((due, member_id), None)

    def forget(self, member_id: str) -> None:
        """Cancel all deadlines of the member."""
        for due in Due:
            self.cancel(due, member_id)

    def next_ms(self) -> int | None:
        """Return the earliest deadline, or None."""
        self.has_news = False
        while self._heap:
            queued, key = self._heap[0]
            at_ms = self._at.get(key)
            if self._queued.get(key) != queued:
                heappop(self._heap)  # an earlier entry replaced this one
            elif at_ms is None:
                heappop(self._heap)
                del self._queued[key]
            elif at_ms != queued:
                self._queued[key] = at_ms
                heapreplace(self._heap, (at_ms, key))
            else:
                return at_ms
        return None

    def take_due(self, now_ms: int) -> list[tuple[Due, str]]:
        """Remove the deadlines that are due, and return them."""
        taken: list[Key] = []
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            _, key = heappop(self._heap)
            del self._queued[key], self._at[key]
            taken.append(key)
        return taken
