"""When a worker that has died is restarted. No IO.

Invariants: pauses double up to a limit while a worker dies soon after its start, and start again
from the minimum after it has lived long enough; a worker whose exit code says that its arguments
are wrong is not restarted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 30.0
_LIVED_S: Final = 60.0
MISUSED: Final = 2


@dataclass(slots=True)
class Restarts:
    """The restarts of one worker."""

    started_s: float = 0.0
    pause_s: float = PAUSE_S_MIN

    def on_start(self, now_s: float) -> None:
        """Note that the worker starts."""
        self.started_s = now_s

    def on_end(self, code: int, now_s: float) -> float | None:
        """Return the pause before the worker is restarted; None if a restart is useless."""
        if code == MISUSED:
            return None
        if now_s - self.started_s >= _LIVED_S:
            self.pause_s = PAUSE_S_MIN
        pause_s, self.pause_s = self.pause_s, min(2 * self.pause_s, PAUSE_S_MAX)
        return pause_s
