"""Decides when a failed task or connector is restarted automatically. No IO.

The wait doubles with each failure in a row, up to a limit, with some randomness so that tasks that
failed together do not restart together. A run without failure that lasts as long as the longest
wait resets the count. `errors.restart.max` limits the restarts in a row; after that the task stays
FAILED until a user restarts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FOREVER = -1
IDLE_MS: Final = 30_000
"""A restarted task without records to write is well after this time."""
MOVED: Final = ("source-record-write-total", "sink-record-send-total")
"""The metrics that grow with every record that a task has moved."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The settings `errors.restart.max`, `.backoff.ms` and `.backoff.max.ms`."""

    restarts_max: int = FOREVER
    backoff_ms: int = 1_000
    backoff_max_ms: int = 300_000


@dataclass(slots=True)
class RestartHistory:
    """The failures in a row of one task or connector."""

    in_a_row: int = 0
    total: int = 0
    due_ms: int | None = None
    """The time of the next restart; None while no restart is due."""
    started_ms: int = 0
    last_error: str | None = None
    """The cause of the last failure, in one line, until there is progress again."""

    def on_started(self, now_ms: int) -> None:
        """Note that the task or connector is being started."""
        self.due_ms = None
        self.started_ms = now_ms

    def on_failure(self, policy: RestartPolicy, now_ms: int, luck: float) -> int | None:
        """Return the time of the next restart; None for never. `luck` is from 0 to 1."""
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
        """Note that the restart that was due is done."""
        self.total += 1
        self.due_ms = None

    def on_metrics(self, now_ms: int, metrics: Mapping[str, float]) -> None:
        """Forget the last error if these metrics of the restarted task show progress, or that it
        has had nothing to write for a while."""
        is_idle = now_ms - self.started_ms >= IDLE_MS and not metrics.get("sink-record-lag")
        if is_idle or any(metrics.get(name) for name in MOVED):
            self.last_error = None

    def on_manual(self) -> None:
        """Note that a user restarts it, which resets the count of failures in a row."""
        self.in_a_row = 0
        self.due_ms = None
