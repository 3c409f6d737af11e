"""Decide when to start a part again that has ended. No IO.

The pause doubles up to a limit while the part ends soon after its start. It is short again after
the part has run for a while. A part that exits because of wrong arguments is not started again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 30.0
STABLE_S: Final = 60.0
USAGE_ERROR_CODE: Final = 2


@dataclass(slots=True)
class Restarts:
    """The restarts of one part."""

    started_s: float = 0.0
    pause_s: float = PAUSE_S_MIN
    count: int = 0

    def on_start(self, now_s: float) -> None:
        """The part starts."""
        self.started_s = now_s

    def on_end(self, code: int, now_s: float) -> float | None:
        """The part has ended. Return the pause before its restart, or None for no restart."""
        if code == USAGE_ERROR_CODE:
            return None
        if now_s - self.started_s >= STABLE_S:
            self.pause_s = PAUSE_S_MIN
        pause_s, self.pause_s = self.pause_s, min(2 * self.pause_s, PAUSE_S_MAX)
        self.count += 1
        return pause_s
