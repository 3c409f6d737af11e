"""The state of one partition's log, which its parts share.

Invariants:
* log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset, and only `Truncation`
  moves an end back.
* log_start_offset <= local_log_start_offset: records below the second one are in remote storage
  only. The two are equal unless the log is tiered.
* flushed_end_offset <= log_end_offset: everything below it is durable.
* persisted_recovery_point <= claimed_recovery_point: the checkpoint on disk holds the first one or
  anything up to the second.
* `segments`, `producers` and `leader_epochs` describe the same batches: all below
  `log_end_offset`.
* After an OSError from the disk (`failure`) nothing is written any more, because it is unknown
  which bytes reached the disk. The log's owner takes the directory out of service.

There is one state, and each part of a log (`LogAppender`, `SegmentsReader`, `Retention`, ...) holds
it. So a part has only the methods of its own noun, and the hot ones pay for one attribute and no
call.
"""

from __future__ import annotations

from typing import NoReturn

from moldau.broker.log.appended import Owner
from moldau.broker.log.flush import Durability
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.recovery import RecoveredLog
from moldau.broker.log.segment import Segment
from moldau.broker.log.segments import Segments
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.files import Files


class LogState:
    """The facts about a log, and the changes that more than one part makes."""

    __slots__ = (
        "claimed_recovery_point",
        "config",
        "deleted",
        "directory",
        "durability",
        "failure",
        "files",
        "flushed_end_offset",
        "high_watermark",
        "is_everywhere",
        "jitter",
        "leader_epoch",
        "leader_epochs",
        "local_log_start_offset",
        "log_end_offset",
        "log_start_offset",
        "oldest_unflushed_ms",
        "owner",
        "persisted_recovery_point",
        "producers",
        "segments",
        "snapshots",
        "truncation_count",
    )

    def __init__(
        self, files: Files, directory: str, config: LogConfig, found: RecoveredLog, owner: Owner
    ) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        self.owner = owner
        self.segments = Segments(found.segments, owner.files)
        self.producers = found.producers
        self.snapshots = found.snapshots
        self.leader_epochs = found.epochs
        self.leader_epoch = found.epochs.latest_epoch
        """The epoch of the last batch."""
        self.log_start_offset = found.log_start_offset
        # What is in remote storage only is committed.
        self.local_log_start_offset = self.high_watermark = found.local_log_start_offset
        """The offset of the first record that can be read in the segments."""
        self.log_end_offset = self.segments.active.next_offset
        self.flushed_end_offset = found.flushed_end_offset
        self.persisted_recovery_point = found.recovery_point
        """The recovery point that the checkpoint certainly holds. Its writer sets this."""
        self.claimed_recovery_point = found.recovery_point
        """The highest recovery point that the checkpoint may hold while it is being written."""
        is_clean = found.is_clean and self.log_end_offset > 0
        self.durability = Durability(self.segments.active.base_offset, is_clean)
        self.failure: Exception | None = None
        self.is_everywhere = False
        """Whether every replica of the partition is in sync. The owner sets it; until then
        compaction keeps the records that say of others that they are gone."""
        self.jitter = 0.0
        """This log's share, 0 to 1, of `segment.jitter.ms`."""
        self.oldest_unflushed_ms: int | None = None
        """The time of the oldest append that no flush covers."""
        self.truncation_count = 0
        """How often the log's end was moved back."""
        self.deleted: list[tuple[int, Segment]] = []
        """Segments that were renamed for deletion, and the times at which to remove their files."""

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open. It is never below the log's start: the
        first records of an open transaction may have been deleted."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is durable, indexes included: recovery need not check
        it."""
        for segment in self.segments:
            if not segment.are_indexes_durable:
                return segment.base_offset
        return self.log_end_offset

    @property
    def is_history_known(self) -> bool:
        """Whether the producers are known, and the epochs of the records that are in remote storage
        only. A tiered log that has lost its own records may know neither; see `truncation`. If
        its file of epochs was damaged it does not know the epochs."""
        start, end = self.local_log_start_offset, self.log_end_offset
        if self.log_start_offset >= start:
            return True
        return self.are_epochs_known and (start < end or end in self.snapshots.offsets)

    @property
    def are_epochs_known(self) -> bool:
        """Whether the log has the epochs of its remote records."""
        start, earliest = self.log_start_offset, self.leader_epochs.earliest
        if start >= self.local_log_start_offset:
            return True
        return earliest is not None and earliest.start_offset <= start

    def update_high_watermark(self, offset: int) -> bool:
        """Note that everything below `offset` is replicated, within the log's end. Return whether
        the high watermark rose."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        return True

    def begin_at(self, offset: int) -> None:
        """Move the log's start up to `offset`."""
        self.log_start_offset = offset
        self.local_log_start_offset = max(self.local_log_start_offset, offset)
        self.producers.on_log_start_offset(offset)

    def delete_later(self, segment: Segment, now_ms: int) -> None:
        """Remove a renamed segment's files after `file_delete_delay_ms`."""
        self.deleted.append((now_ms + self.config.file_delete_delay_ms, segment))

    def checkpoint_claims(self, recovery_point: int) -> None:
        """Note that a checkpoint with this recovery point is being written."""
        self.claimed_recovery_point = max(self.claimed_recovery_point, recovery_point)

    def checkpoint_holds(self, recovery_point: int) -> None:
        """Note that the checkpoint has this recovery point, durably."""
        self.persisted_recovery_point = self.claimed_recovery_point = recovery_point

    def persist_points(self) -> None:
        """Make the recovery point and the log's start durable."""
        try:
            self.owner.persist_points()
        except OSError as error:
            self.fail(error)

    # Failures.

    def take_out_of_service(self, error: Exception) -> None:
        """Reject everything from now on, because the directory has failed or the log is closed."""
        if self.failure is None:
            self.failure = without_frames(error)

    def fail(self, error: OSError) -> NoReturn:
        """Take the log out of service after a disk error."""
        if self.failure is None:
            self.take_out_of_service(error)
            self.owner.on_failure(error)
        self.refuse_failed()

    def refuse_failed(self) -> NoReturn:
        """Reject a request, because the log has failed."""
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, directory=self.directory, error=str(self.failure)
        ) from self.failure

    def refuse_offset(self, offset: int) -> NoReturn:
        """Reject an offset outside of the log."""
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            offset=offset,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
        )
