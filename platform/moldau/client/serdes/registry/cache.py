"""A dict of so many entries, which forgets what it was told first.

May be used in several threads at once. So a hit changes nothing: the order of use, of an
`OrderedDict`, cannot be kept without a lock for each hit, for keys that hash or compare in Python
let other threads in while it is being changed, and then it ends the process.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from moldau.runtime.forks import hear_of_forks
from moldau.runtime.loop_thread import new_lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """At most `size` entries."""

    def __init__(self, size: int) -> None:
        assert size > 0
        self._size = size
        self._entries: dict[K, V] = {}
        self._lock = new_lock()
        hear_of_forks(self)

    def forked(self) -> None:
        """What is remembered stays; another thread may have held the lock."""
        self._lock = new_lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """What is remembered."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> V:
        """Remembers it, and forgets the oldest where there are too many."""
        with self._lock:
            self._entries[key] = value
            if len(self._entries) > self._size:
                del self._entries[next(iter(self._entries))]
        return value

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._entries.clear()
