"""When to look whether a connection is idle: a wheel of slots for all of them, no timer for each.

Activity costs its connection one stored number and the wheel nothing: an item stands in the slot of
the moment when it could be idle at the earliest, is looked at then, and put where it belongs now.

Invariants: an item is in one slot at most; `due` gives each item no earlier than it was due, and at
most one slot later.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

NO_SLOT = -1


class Watched(Protocol):
    """What can stand in a slot: it keeps the slot's number."""

    idle_slot: int


W = TypeVar("W", bound=Watched)


class IdleWheel(Generic[W]):
    """`slot_seconds` is how exact it is."""

    def __init__(self, slot_seconds: float) -> None:
        self._slot_seconds = slot_seconds
        self._slots: dict[int, dict[W, None]] = {}
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def put(self, item: W, at: float) -> None:
        """Look at it when `at` has passed."""
        assert item.idle_slot == NO_SLOT, "it stands in a slot already"
        slot = max(int(at / self._slot_seconds) + 1, self._next)
        item.idle_slot = slot
        self._slots.setdefault(slot, {})[item] = None

    def remove(self, item: W) -> None:
        """It need not be looked at any more; fine if it stands nowhere."""
        slot = self._slots.get(item.idle_slot)
        if slot is not None:
            del slot[item]
            if not slot:
                del self._slots[item.idle_slot]
        item.idle_slot = NO_SLOT

    def due(self, now: float) -> list[W]:
        """Takes out those whose moment has passed."""
        until = int(now / self._slot_seconds)
        if until - self._next > len(self._slots):
            passed = sorted(slot for slot in self._slots if slot <= until)
        else:
            passed = [slot for slot in range(self._next, until + 1) if slot in self._slots]
        self._next = max(self._next, until + 1)
        items = [item for slot in passed for item in self._slots.pop(slot)]
        for item in items:
            item.idle_slot = NO_SLOT
        return items
