"""The automatic restarts of one task or connector, and what its status says of its failures. No IO.

The settings `errors.restart.*` are the policy, and some randomness keeps tasks that failed together
from restarting together. A run without failure that lasts as long as the longest wait ends a row of
failures. After the last restart the task stays FAILED until a user restarts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from moldau.deferred import dataclass
from moldau.runtime.restarts import Restarts

IDLE_MS: Final = 30_000
"""A restarted task without records to write is well after this time."""
MOVED: Final = ("source-record-write-total", "sink-record-send-total")
"""The metrics that grow with every record that a task has moved."""


@dataclass(slots=True)
class RestartHistory:
    """The restarts of one task or connector, and its last error."""

    restarts: Restarts = field(default_factory=Restarts)
    started_ms: int = 0
    last_error: str | None = None
    """The cause of the last failure, in one line, until there is progress again."""

    def on_started(self, now_ms: int) -> None:
        """Note that the task or connector is being started."""
        self.started_ms = now_ms
        self.restarts.on_up(now_ms)

    def on_metrics(self, now_ms: int, metrics: Mapping[str, float]) -> None:
        """Forget the last error if these metrics of the restarted task show progress, or that it
        has had nothing to write for a while."""
        is_idle = now_ms - self.started_ms >= IDLE_MS and not metrics.get("sink-record-lag")
        if is_idle or any(metrics.get(name) for name in MOVED):
            self.last_error = None
