"""The effect of a power loss on bytes that were not synced. Every choice comes from the seed.

One loss draws how much of the unsynced data survives: nothing, everything, or a share of it.
Uniform coin flips alone would almost never lose all or keep all of twenty sectors, and most bugs
are in those two cases.
"""

from __future__ import annotations

from random import Random

_SURVIVALS = (0.0, 0.1, 0.5, 0.9, 1.0)
_TORN = 0.3


class PowerLoss:
    """One loss of power, which decides about each unsynced sector, name and size."""

    __slots__ = ("_random", "survival")

    def __init__(self, random: Random, survival: float | None = None) -> None:
        self._random = random
        self.survival = random.choice(_SURVIVALS) if survival is None else survival

    def keeps(self) -> bool:
        """Whether one unsynced sector or name had reached the disk in time."""
        if self.survival in (0.0, 1.0):
            return self.survival == 1.0
        return self._random.random() < self.survival

    def sector(self, old: bytes, new: bytes) -> bytes:
        """Return the rest of a sector that was `old` on the disk and `new` in the cache."""
        if self.keeps():
            return new
        if self.survival == 0.0 or self._random.random() >= _TORN:
            return old
        cut = self._random.randrange(1, len(new))
        if self._random.random() < 0.5:
            return new[:cut] + old[cut:]
        return old[:cut] + new[cut:]

    def size(self, durable: int, current: int, lowest: int, highest: int) -> int:
        """Return the size of a file without a synced size: one that it had or passed through."""
        if lowest == highest or self.survival == 1.0:
            return current
        if self.survival == 0.0:
            return durable
        draw = self._random.random()
        if draw < 0.3:
            return current
        if draw < 0.6:
            return durable
        return self._random.randint(lowest, highest)
