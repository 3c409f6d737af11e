"""Deadlines by key, for deadlines that are postponed far more often than they are met.

A heartbeat postpones the deadline of a session: that is one write into a dict. The heap keeps the
entry for the earlier time. When that time comes, the entry is moved to the current deadline. So a
heap entry is never later than its deadline, and each key has at most one live entry.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class Deadlines(Generic[K]):
    """Deadlines by key. Those of the same time are returned in the order of queueing."""

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._queued: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0
        self.has_news = False
        """Whether the earliest deadline may be nearer than the last result of `next_ms`."""

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[K]:
        return iter(self._due)

    def set(self, key: K, at_ms: int) -> None:
        """Set or replace the deadline of `key`."""
        self._due[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued[0]:
            self._queue(key, at_ms)

    def cancel(self, key: K) -> None:
        """Cancel the deadline of `key`, if it has one."""
        if self._due.pop(key, None) is not None:
            del self._queued[key]

    def clear(self) -> None:
        """Cancel all deadlines."""
        self._due.clear()
        self._queued.clear()
        self._heap.clear()

    def next_ms(self) -> int | None:
        """Return a time not later than the earliest deadline; None if there is none."""
        self.has_news = False
        heap = self._heap
        while heap and not self._is_live(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: int) -> K | None:
        """Remove one deadline that is due and return its key. Return None if no other is due at
        `now_ms`; then `next_ms` is later."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)
            if not self._is_live(entry):
                continue
            key = entry[2]
            del self._queued[key]
            due = self._due[key]
            if due <= now_ms:
                del self._due[key]
                return key
            self._queue(key, due)
        return None

    def _is_live(self, entry: tuple[int, int, K]) -> bool:
        return self._queued.get(entry[2]) == entry[:2]

    def _queue(self, key: K, at_ms: int) -> None:
        self.has_news = True
        self._sequence += 1
        self._queued[key] = (at_ms, self._sequence)
        heappush(self._heap, (at_ms, self._sequence, key))
        if len(self._heap) > 2 * len(self._queued) + _SLACK:
            self._compact()

    def _compact(self) -> None:
        """Drop the entries of keys that were cancelled or moved to an earlier time. So churn cannot
        grow the heap beyond a multiple of its live entries."""
        self._heap = [entry for entry in self._heap if self._is_live(entry)]
        heapify(self._heap)
