"""A dict of bounded size, which drops the entry that was added first.

It can be used in several threads at once, so a hit changes nothing. The order of use, as an
`OrderedDict` keeps it, would need a lock for each hit: keys that hash or compare in Python let
other threads run in the middle of a change, and then the change crashes the process.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from moldau.runtime.forks import hear_of_forks
from moldau.runtime.loop_thread import new_lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A dict with at most `size` entries."""

    def __init__(self, size: int) -> None:
        assert size > 0
        self._size = size
        self._entries: dict[K, V] = {}
        self._lock = new_lock()
        hear_of_forks(self)

    def forked(self) -> None:
        """Renew the lock in a child, as another thread may have held it. The entries stay."""
        self._lock = new_lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of the key, or None if it is not cached."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> V:
        """Store the value and return it. Drop the oldest entry if there are too many."""
        with self._lock:
            self._entries[key] = value
            if len(self._entries) > self._size:
                del self._entries[next(iter(self._entries))]
        return value

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
