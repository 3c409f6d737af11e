"""What is due when, made for deadlines that are moved on far more often than they are met.

A heartbeat moves a session's deadline: that is one write into a dict. The heap keeps the entry for
the earlier time; when that time comes the entry is moved to where it belongs by then. So a heap
entry is never later than its deadline, and each key has one live entry at most.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class Deadlines(Generic[K]):
    """Deadlines by key; those of one time come up in the order in which they were queued."""

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._queued: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0
        self.has_news = False
        """Whether the earliest may be nearer than `next_ms` said last."""

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[K]:
        return iter(self._due)

    def set(self, key: K, at_ms: int) -> None:
        """The deadline of `key` is then, whatever it was."""
        self._due[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued[0]:
            self._queue(key, at_ms)

    def cancel(self, key: K) -> None:
        """No deadline for `key`. Fine if there is none."""
        if self._due.pop(key, None) is not None:
            del self._queued[key]

    def clear(self) -> None:
        """No deadlines at all."""
        self._due.clear()
        self._queued.clear()
        self._heap.clear()

    def next_ms(self) -> int | None:
        """Not later than the earliest deadline; None if there is none."""
        self.has_news = False
        heap = self._heap
        while heap and not self._is_live(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: int) -> K | None:
        """A key whose deadline has come; its deadline is gone with that. None when nothing else
        is due at `now_ms`, and then `next_ms` is later."""
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
        """Entries of keys that were cancelled or moved forward are dropped, so that churn cannot
        grow the heap beyond a multiple of what is live."""
        self._heap = [entry for entry in self._heap if self._is_live(entry)]
        heapify(self._heap)
