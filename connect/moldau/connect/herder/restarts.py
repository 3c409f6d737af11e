"""When a failed task or connector begins again by itself. No IO.

The wait doubles with each failure in a row, up to a limit, with some randomness so that tasks that
failed together do not come back together. Running well for as long as the longest wait ends the
row. `errors.restart.max` bounds the row; after that it stays FAILED until a user restarts it.
"""

from __future__ import annotations

from dataclasses import dataclass

FOREVER = -1


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The settings `errors.restart.max`, `.backoff.ms` and `.backoff.max.ms`."""

    restarts_max: int = FOREVER
    backoff_ms: int = 1_000
    backoff_max_ms: int = 300_000


@dataclass(slots=True)
class RestartHistory:
    """One task's or connector's failures in a row."""

    in_a_row: int = 0
    total: int = 0
    due_ms: int | None = None
    """When it begins again; None while no restart is due."""
    started_ms: int = 0

    def on_started(self, now_ms: int) -> None:
        """It runs, or is being started."""
        self.due_ms = None
        self.started_ms = now_ms

    def on_failure(self, policy: RestartPolicy, now_ms: int, luck: float) -> int | None:
        """When to restart it, or None: never. `luck` is from 0 to 1."""
        if now_ms - self.started_ms >= policy.backoff_max_ms:
            self.in_a_row = 0
        if policy.restarts_max != FOREVER and self.in_a_row >= policy.restarts_max:
            self.due_ms = None
            return None
        wait_ms = min(policy.backoff_max_ms, policy.backoff_ms << min(self.in_a_row, 30))
        self.in_a_row += 1
        self.due_ms = now_ms + int(wait_ms * (0.8 + 0.4 * luck))
        return self.due_ms

    def on_restarted(self) -> None:
        """The restart that was due is made."""
        self.total += 1
        self.due_ms = None

    def on_manual(self) -> None:
        """A user restarts it: the row begins anew."""
        self.in_a_row = 0
        self.due_ms = None
