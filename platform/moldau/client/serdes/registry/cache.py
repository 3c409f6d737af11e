"""A dict of so many entries, which forgets what was used longest ago.

May be read in one thread while another writes: a hit that is being forgotten counts as none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """At most `size` entries."""

    def __init__(self, size: int) -> None:
        assert size > 0
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """What is remembered; it counts as used."""
        try:
            self._entries.move_to_end(key)
            return self._entries[key]
        except KeyError:
            return None

    def put(self, key: K, value: V) -> V:
        """Remembers it, and forgets the oldest where there are too many."""
        self._entries[key] = value
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forgets everything."""
        self._entries.clear()
