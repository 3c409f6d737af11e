"""When a sink task polls, puts, commits and pauses its partitions: a volatile core. No IO.

Invariants: while records wait to be put again, no others are read, so the partitions are paused and
the task stays in its group. Partitions that the task itself paused stay so after a hold.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from moldau.client import TopicPartition
from moldau.deferred import dataclass

POLL_S: Final = 0.5
RETRY_MS: Final = 1_000
LOOK_EVERY_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SinkReady:
    """What is to be done now."""

    poll_s: float
    """How long a poll may wait for records."""
    puts: bool
    looks: bool
    """Whether to look for topics that do not exist."""
    commits: bool


class SinkSchedule:
    """The turns of one task. Times are those of the monotonic clock, in milliseconds."""

    def __init__(self, interval_ms: int, now_ms: int, *, is_paused: bool) -> None:
        """`interval_ms` is that of commits."""
        self.assigned: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()
        """The partitions that the task itself has paused."""
        self.is_held = False
        """Whether records wait to be put again."""
        self.is_paused = is_paused
        """Whether the user has paused the connector."""
        self._interval_ms = interval_ms
        self._commit_ms = now_ms + interval_ms
        self._look_ms = 0
        self._again_ms = 0
        self._timeout_ms: int | None = None
        self._wants_commit = False

    # Events

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """The task has these partitions too."""
        self.assigned.update(partitions)

    def on_gone(self, partitions: Collection[TopicPartition], *, is_empty: bool) -> None:
        """These partitions are no longer the task's; `is_empty` if nothing waits to be put."""
        self.assigned.difference_update(partitions)
        self.paused.difference_update(partitions)
        if is_empty:
            self._again_ms = 0

    def on_timeout(self, timeout_ms: int) -> None:
        """The task asks for the next put after this time."""
        self._timeout_ms = timeout_ms if timeout_ms >= 0 else None

    def on_commit_request(self) -> None:
        """The task wants a commit soon."""
        self._wants_commit = True

    def on_put_begins(self) -> None:
        """A time that the task asked for is over."""
        self._timeout_ms = None

    def on_refused(self, now_ms: int) -> int:
        """The same records are to be put again. Return the pause before that."""
        wait_ms = RETRY_MS if self._timeout_ms is None else self._timeout_ms
        self._again_ms = now_ms + wait_ms
        self.is_held = True
        return wait_ms

    def on_put(self) -> None:
        """Everything is put."""
        self._again_ms = 0
        self.is_held = False

    def on_looked(self, now_ms: int) -> None:
        """The missing topics were looked for."""
        self._look_ms = now_ms + LOOK_EVERY_MS

    def on_commit(self, now_ms: int) -> None:
        """A commit begins."""
        self._wants_commit = False
        self._commit_ms = now_ms + self._interval_ms

    # Questions

    @property
    def reads(self) -> bool:
        """Whether records are read at all."""
        return not self.is_paused and not self.is_held

    def ready(self, now_ms: int, *, has_pending: bool) -> SinkReady:
        """Return what is to be done; `has_pending` says whether records wait to be put."""
        wait_s = min(POLL_S, max(0.0, (self._commit_ms - now_ms) / 1000))
        if self._timeout_ms is not None:
            wait_s = min(wait_s, self._timeout_ms / 1000)
        if has_pending:
            wait_s = min(wait_s, max(0.0, (self._again_ms - now_ms) / 1000))
        return SinkReady(
            poll_s=wait_s,
            puts=now_ms >= self._again_ms if has_pending else not self.is_paused,
            looks=now_ms >= self._look_ms,
            commits=self._wants_commit or now_ms >= self._commit_ms,
        )
