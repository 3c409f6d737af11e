"""The schedule for checking connections for idleness: one wheel of slots, and no timer for each.

Activity costs a connection one stored number, and the wheel nothing. An item is in the slot of the
earliest time when it could be idle. It is checked then, and put into the slot where it belongs now.

Invariants: an item is in one slot at most. `due` returns an item no earlier than it is due, and at
most one slot later.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

NO_SLOT = -1


class WheelItem(Protocol):
    """An item for the wheel. It stores the number of its slot."""

    idle_slot: int


W = TypeVar("W", bound=WheelItem)


class IdleWheel(Generic[W]):
    """The wheel. `slot_seconds` is its precision."""

    def __init__(self, slot_seconds: float) -> None:
        self._slot_seconds = slot_seconds
        self._slots: dict[int, dict[W, None]] = {}
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def put(self, item: W, at: float) -> None:
        """Check the item once `at` has passed."""
        assert item.idle_slot == NO_SLOT, "it stands in a slot already"
        slot = max(int(at / self._slot_seconds) + 1, self._next)
        item.idle_slot = slot
        self._slots.setdefault(slot, {})[item] = None

    def remove(self, item: W) -> None:
        """Remove the item. It need not be in a slot."""
        slot = self._slots.get(item.idle_slot)
        if slot is not None:
            del slot[item]
            if not slot:
                del self._slots[item.idle_slot]
        item.idle_slot = NO_SLOT

    def due(self, now: float) -> list[W]:
        """Remove and return the items whose time has passed."""
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
