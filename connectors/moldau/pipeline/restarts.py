"""When a part that has died is started again. No IO.

Pauses double up to a limit while a part dies soon after its start, and begin anew when it has
lived. A part that says that its arguments are wrong is not started again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 30.0
LIVED_S: Final = 60.0
MISUSED: Final = 2


@dataclass(slots=True)
class Restarts:
    """Of one part."""

    started_s: float = 0.0
    pause_s: float = PAUSE_S_MIN
    count: int = 0

    def on_start(self, now_s: float) -> None:
        """It begins."""
        self.started_s = now_s

    def on_end(self, code: int, now_s: float) -> float | None:
        """The pause before it is started again; None if that is of no use."""
        if code == MISUSED:
            return None
        if now_s - self.started_s >= LIVED_S:
            self.pause_s = PAUSE_S_MIN
        pause_s, self.pause_s = self.pause_s, min(2 * self.pause_s, PAUSE_S_MAX)
        self.count += 1
        return pause_s
