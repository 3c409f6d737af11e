"""What a source task does next: a volatile core, for both guarantees. No IO.

At least once, offsets are stored after an interval: those up to which all records are acknowledged,
skipped on purpose or dropped by a transform. Exactly once they are in the transaction of their
records, and `Boundaries` decides where it ends.

Invariants: what is to be stored is never beyond what is acknowledged, or is in one transaction with
it; the connector is told of each record once, when it is durable, with transactions after the
commit; a record that the cluster rejects ends the task, unless losing it is allowed; after
`on_stop` nothing is polled, and all that is left is done within the time that it names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

from moldau.connect.task.boundaries import Boundaries, Ready
from moldau.connect.task.submitted import SubmittedRecord, SubmittedRecords
from moldau.deferred import dataclass
from moldau.errors import without_frames

IDLE_S: Final = 0.1
PAUSED_S: Final = 1.0
RETRY_S: Final = 1.0
FLUSH_PART: Final = 0.5
"""The part of the time for a graceful stop that the last flush may take."""

Delivery = tuple[SubmittedRecord, Any]
"""A record or a batch, and where the cluster has it: None if it was dropped."""


@dataclass(frozen=True, slots=True)
class SourceReady:
    """What the shell must do, in this order; it is true if there is anything."""

    rejected: Exception | None = None
    """Why the cluster has rejected a record: the task fails."""
    delivered: Sequence[Delivery] = ()
    """What the connector is told of."""
    notifies: bool = False
    """Whether the connector is told that offsets were stored."""
    flush_ms: int = 0
    """How long to wait for acknowledgements."""
    end: Ready = field(default_factory=Ready)
    """Which offsets are stored, and how the transaction ends."""
    polls: bool = False
    rest_s: float = 0.0
    """How long to wait for a command before the next turn."""

    def __bool__(self) -> bool:
        return bool(self.rejected or self.delivered or self.notifies or self.flush_ms or self.end)


class SourceCore:
    """The progress of one source task. It belongs to the task's thread, but for `on_delivered`."""

    def __init__(
        self,
        interval_ms: int,
        now_ms: int,
        boundaries: Boundaries | None = None,
        *,
        is_paused: bool = False,
        tolerates_loss: bool = False,
    ) -> None:
        """`interval_ms` is that of commits without transactions, of which `boundaries` decides."""
        self.is_paused = is_paused
        self.tolerates_loss = tolerates_loss and boundaries is None
        """Whether a record may be lost that the cluster rejects."""
        self.active = 0
        """How many records were polled of which the connector is not told yet."""
        self._interval_ms = interval_ms
        self._commit_ms = now_ms + interval_ms
        self._boundaries = boundaries
        self._submitted = SubmittedRecords()
        self._arrived: deque[Delivery] = deque()
        self._told: list[Delivery] = []
        self._rejected: Exception | None = None
        self._rest_s = 0.0
        self._flush_ms = 0
        self._notifies = False
        self._is_aborting = False
        self._is_stopping = False

    # Events

    def on_submitted(self, entry: SubmittedRecord) -> None:
        """A record or a batch was polled. All of a poll is submitted before the first is sent."""
        self.active += entry.count
        if self._boundaries is None:
            self._submitted.add(entry)

    def on_sent(self, entry: SubmittedRecord) -> None:
        """The producer has it."""
        self._on_handled(entry, entry.count)

    def on_dropped(self, entry: SubmittedRecord) -> None:
        """It is left out on purpose."""
        self.on_delivered(entry, None)
        self._on_handled(entry, 0)

    def _on_handled(self, entry: SubmittedRecord, sent: int) -> None:
        if self._boundaries is not None:
            self._boundaries.on_sent(sent)
            self._boundaries.on_offset(entry.partition, entry.offset)
            self._boundaries.on_record(entry.subject)

    def on_delivered(
        self, entry: SubmittedRecord, sent: object, error: Exception | None = None
    ) -> None:
        """The cluster has it, or has rejected it. May be called on the client's thread."""
        if error is not None and not (self.tolerates_loss or self._is_aborting):
            self._rejected = self._rejected or without_frames(error)
            return
        entry.acknowledge()
        self._arrived.append((entry, None if error is not None else sent))

    def on_polled(self, count: int) -> None:
        """All records of a poll were sent or dropped."""
        self._rest_s = 0.0 if count else IDLE_S
        if count and self._boundaries is not None:
            self._boundaries.on_poll()

    def on_poll_failed(self) -> None:
        """The source is to be polled again, later."""
        self._rest_s = RETRY_S

    def on_cut(self) -> None:
        """The task ends, and the records of the last poll were not all sent."""
        if self._boundaries is not None:
            self._boundaries.on_cut()

    def on_finished(self, end: Ready) -> None:
        """The offsets are stored, and the transaction has ended."""
        self._notifies = end.commits
        self._submitted.on_stored()
        if self._boundaries is not None:
            arrived, self._arrived, self._is_aborting = self._arrived, deque(), False
            if not end.is_read_again:
                self._told += [(entry, None) for entry, _ in arrived] if end.aborts else arrived

    def on_flushed(self) -> None:
        """What could be acknowledged in time is."""
        self._flush_ms = 0

    def on_stop(self, now_ms: int, grace_ms: int, *, is_clean: bool) -> None:
        """The task ends, `is_clean` if nothing has failed: an open transaction is aborted else."""
        self._is_stopping = True
        if self._boundaries is None:
            self._commit_ms = now_ms
            self._flush_ms = int(grace_ms * FLUSH_PART)
        elif is_clean and self._rejected is None:
            self._boundaries.on_stop()
        else:
            self._boundaries.on_failure()

    # Questions

    @property
    def has_end(self) -> bool:
        """Whether a transaction ends after the last record."""
        return self._boundaries is not None and self._boundaries.has_end

    def ready(self, now_ms: int) -> SourceReady:
        """Return what is to be done now, each thing once."""
        if self._is_stopping:
            if self._flush_ms:
                return SourceReady(flush_ms=self._flush_ms)
        elif self._rejected is not None:
            return SourceReady(rejected=self._rejected)
        notifies, self._notifies = self._notifies, False
        polls = not (self.is_paused or self._is_stopping)
        return SourceReady(
            delivered=self._newly_told(),
            notifies=notifies,
            end=self._end(now_ms),
            polls=polls,
            rest_s=self._rest_s if polls else PAUSED_S,
        )

    def _newly_told(self) -> list[Delivery]:
        told, self._told = self._told, []
        while self._boundaries is None and self._arrived:
            told.append(self._arrived.popleft())
        self.active -= sum(entry.count for entry, _ in told)
        return told

    def _end(self, now_ms: int) -> Ready:
        if self._boundaries is not None:
            if not self._is_stopping:
                self._boundaries.on_time(now_ms)
            end = self._boundaries.ready()
            self._is_aborting = end.aborts
            return end
        if now_ms < self._commit_ms:
            return Ready()
        self._commit_ms = now_ms + self._interval_ms
        offsets = self._submitted.committable()
        return Ready(commits=bool(offsets), offsets=offsets)
