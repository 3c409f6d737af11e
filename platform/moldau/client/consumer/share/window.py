"""How many records to hold at once. No IO.

Records that a consumer holds wait for its handler, and no other consumer gets them meanwhile. So a
slow handler should hold few, and a quick one enough that it never waits for the broker: about the
work of half a second. Each refill says how long the last ones lasted.
"""

from __future__ import annotations

from typing import Final

_FIRST: Final = 16
_SHORT_S: Final = 0.25
_LONG_S: Final = 1.0


class Window:
    """The number of records to hold. Invariant: 1 <= size <= size_max."""

    def __init__(self, size_max: int) -> None:
        self.size_max = max(1, size_max)
        self.size = min(_FIRST, self.size_max)
        self._size_min = 1
        self._filled_at: float | None = None

    def hold_at_least(self, count: int) -> None:
        """Never hold fewer: so many are handled at a time."""
        self._size_min = min(count, self.size_max)
        self.size = max(self.size, self._size_min)

    def on_refill(self, now: float) -> None:
        """Adapt the size: the records that were asked for before are handled by now."""
        before, self._filled_at = self._filled_at, now
        if before is None:
            return
        lasted_s = now - before
        if lasted_s < _SHORT_S:
            self.size = min(self.size_max, self.size * 2)
        elif lasted_s > _LONG_S:
            self.size = max(self._size_min, self.size // 2)

    def on_idle(self) -> None:
        """The queue was empty: the time until now says nothing about the handler."""
        self._filled_at = None
