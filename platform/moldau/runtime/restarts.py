"""When something that ended is started again: a process, a task, a service. No IO.

Invariants: pauses double while runs end soon after their start; a steady run ends that row, so the
next pause is short again; after `failures_max` failures in a row there is no restart, because the
next start would fail for the same reason. The caller decides what a failure is: a process that was
stopped on purpose, or that refuses its arguments, is not reported here.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from moldau.deferred import dataclass
from moldau.runtime.backoff import JITTER, Backoff

USAGE_ERROR: Final = 2
"""The exit code of a process that refuses its arguments: a restart is useless."""
NO_JITTER: Final = 0.5
STAYS_ENDED: Final = 3
"""The exit code of a process that has ended on purpose after a failure: it is not restarted."""
_BACKOFF: Final = Backoff(500, 30_000)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The pauses between restarts, and how many there are."""

    backoff: Backoff = _BACKOFF
    steady_ms: int = 60_000
    """A run that lasts this long ends the failures in a row."""
    failures_max: int | None = None
    """The failures in a row after which there is no restart; None for restarts without end."""


@dataclass(slots=True)
class Restarts:
    """The failures and restarts of one thing."""

    policy: RestartPolicy = field(default_factory=RestartPolicy)
    in_a_row: int = 0
    total: int = 0
    """The restarts so far."""
    due_ms: int | None = None
    """The time of the next restart; None while none is due."""
    _up_ms: int | None = None

    def on_up(self, now_ms: int) -> None:
        """It runs: from its start on, or from when it is known to be well."""
        self._up_ms = now_ms
        self.due_ms = None

    def on_failure(self, now_ms: int, luck: float = NO_JITTER) -> int | None:
        """It has failed. Return the pause in milliseconds, or None for no restart. `luck` is from 0
        to 1, and makes the pause up to a fifth shorter or longer."""
        up_ms, self._up_ms = self._up_ms, None
        if up_ms is not None and now_ms - up_ms >= self.policy.steady_ms:
            self.in_a_row = 0
        limit = self.policy.failures_max
        if limit is not None and self.in_a_row >= limit - 1:
            self.due_ms = None
            return None
        self.in_a_row += 1
        plain_ms = self.policy.backoff.plain_ms(self.in_a_row)
        pause_ms = int(plain_ms * (1 - JITTER + 2 * JITTER * luck))
        self.due_ms = now_ms + pause_ms
        return pause_ms

    def take_due(self, now_ms: int) -> bool:
        """Return True once when the pause is over: the caller starts it now."""
        if self.due_ms is None or now_ms < self.due_ms:
            return False
        self.due_ms = None
        self.total += 1
        return True

    def forget(self) -> None:
        """Forget the failures in a row, and a restart that is due: a user has acted."""
        self.in_a_row = 0
        self.due_ms = None
