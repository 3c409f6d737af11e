"""The earliest of many deadlines, in memory; the others stay in a store, which keeps them in order.

An entry is bytes that begin with a time (8 bytes, big endian): the order of entries is the order of
deadlines.

Invariants:
* All entries below `_edge` are in the heap, and no others. None: all entries are in it.
* An entry is in the store before it is added. An entry that has left the store, or was added twice,
  may still be returned: the caller checks in the store that each entry is valid.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from struct import Struct

NEVER = 2**63 - 1

_TIME = Struct(">Q")

# read(first, limit): the first entries of the store from `first` on, in order.
Read = Callable[[bytes, int], list[bytes]]


class Agenda:
    """The deadlines of a store. `first_time` is the lowest time.

    It is 0 if only the store knows it, NEVER without entries.
    """

    size = 10_000
    """The approximate number of entries in memory; twice as many are cut down to it."""

    def __init__(self, read: Read, edge: bytes = b"") -> None:
        """Leave out the entries of the store below `edge`."""
        self.first_time = 0
        self._read = read
        self._heap: list[bytes] = []
        self._edge: bytes | None = edge

    def __len__(self) -> int:
        """Return how many entries are in memory."""
        return len(self._heap)

    def add(self, entry: bytes) -> None:
        """Add an entry that the store already holds."""
        if self._edge is not None and entry >= self._edge:
            return
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * self.size:
            self._heap.sort()
            self._edge = self._heap[self.size]
            del self._heap[self.size :]
        self.first_time = _TIME.unpack_from(self._heap[0])[0]

    def first(self) -> bytes | None:
        """Return the lowest entry, None without any. Read the store if none is in memory."""
        if not self._heap and self._edge is not None:
            self._refill(self._edge)
        return self._heap[0] if self._heap else None

    def pop(self) -> bytes:
        """Remove and return the lowest entry. The last `first` must have returned one."""
        entry = heapq.heappop(self._heap)
        if self._heap:
            self.first_time = _TIME.unpack_from(self._heap[0])[0]
        else:
            self.first_time = NEVER if self._edge is None else 0
        return entry

    def _refill(self, edge: bytes) -> None:
        found = self._read(edge, self.size + 1)
        self._edge = found.pop() if len(found) > self.size else None
        self._heap = found
        self.first_time = _TIME.unpack_from(found[0])[0] if found else NEVER
