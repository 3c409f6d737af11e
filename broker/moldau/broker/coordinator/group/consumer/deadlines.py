"""When what is due of which member.

A deadline that moves on (every heartbeat moves the session's) only changes a dictionary; its entry
in the heap stays where it was, and is put right when it comes up. So a heartbeat costs no heap
operation, and `next_ms` may be early but is never late.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import heappop, heappush, heapreplace
from typing import TypeAlias


class Due(StrEnum):
    """What a deadline is for. Text, because that is hashed without a call of Python's."""

    SESSION = "session"  # to hear from the member at all
    REBALANCE = "rebalance"  # to give up partitions
    JOIN = "join"  # for a classic member to join again
    SYNC = "sync"  # for a classic member to fetch its assignment


Key: TypeAlias = tuple[Due, str]


class Deadlines:
    """The deadlines of one group's members, at most one of a kind for each."""

    __slots__ = ("_at", "_heap", "_queued", "has_news")

    def __init__(self) -> None:
        self._at: dict[Key, int] = {}
        self._heap: list[tuple[int, Key]] = []
        self._queued: dict[Key, int] = {}
        self.has_news = False
        """Whether the earliest may be nearer than `next_ms` said last."""

    def set(self, due: Due, member_id: str, at_ms: int) -> None:
        """Begin it, or move it."""
        key = due, member_id
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            self.has_news = True
            heappush(self._heap, (at_ms, key))

    def has(self, due: Due, member_id: str) -> bool:
        """Whether it runs."""
        return (due, member_id) in self._at

    def cancel(self, due: Due, member_id: str) -> None:
        """Stop it, if it runs."""
        self._at.pop((due, member_id), None)

    def forget(self, member_id: str) -> None:
        """Stop all of the member's."""
        for due in Due:
            self.cancel(due, member_id)

    def next_ms(self) -> int | None:
        """The earliest."""
        self.has_news = False
        while self._heap:
            queued, key = self._heap[0]
            at_ms = self._at.get(key)
            if self._queued.get(key) != queued:
                heappop(self._heap)  # a later call put an earlier entry for it
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
        """What is over by now; it runs no longer."""
        taken: list[Key] = []
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            _, key = heappop(self._heap)
            del self._queued[key], self._at[key]
            taken.append(key)
        return taken
