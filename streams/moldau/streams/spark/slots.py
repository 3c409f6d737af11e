"""A number for each task that Spark's hash sends to a shuffle partition of the task's own. Pure.

Spark sends a row to partition `hash(column) mod n`. Two tasks with the numbers 0 and 1 may come to
the same partition and wait for each other, so each task has a number that was searched for it.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 42
_MASK: Final = 0xFFFFFFFF


def slots(tasks: int) -> list[int]:
    """Return for each task the least number that comes to the shuffle partition of its own."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < tasks:
        found.setdefault(spark_hash(number) % tasks, number)
        number += 1
    return [found[task] for task in range(tasks)]


def spark_hash(number: int) -> int:
    """Return what Spark's `hash` returns for an INT: Murmur3 with its seed, with a sign."""
    mixed = _rotated(number * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    hashed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    hashed ^= 4  # the length in bytes
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
