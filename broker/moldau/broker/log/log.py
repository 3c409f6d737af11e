"""One partition's log, as the common interface of its parts.

    appending       a batch at the log's end                        `LogAppender`
    reading         slices, batches, offsets by timestamp           `SegmentsReader`
    retention       the log's start, and the segments before it     `Retention`
    truncation      the log's end moved back                        `Truncation`
    flushing        making records durable, and closing             `LogFlusher`
    replacing       cleaned segments in the place of others         `SegmentReplacer`
    rolling         a new segment                                   `SegmentRoller`

They share one `LogState`, whose docstring has the invariants. An append is one write of the
received bytes, stamped in place. The bytes are in the page cache when `append_...` returns. They
are durable when a flush that began later has ended.

Nothing here has a clock or a task. The time is an argument. The one call that may stall is run by
the caller in a thread (`flushing.begin`, `FlushJob.run`, `flushing.end`). A log is used from one
thread. Readers get slices of files, which stay valid even if the log changes afterwards.

`PartitionLog` has the facts, read only, and the operations that all users of a log share: append,
read, flush, move an end. All other operations are called on the parts. The facts are properties
that cost 40 ns each. Code that reads several of them for every request takes them from `state`.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.broker.log.appended import AppendInfo as AppendInfo
from moldau.broker.log.appended import Owner as Owner
from moldau.broker.log.appending import LogAppender
from moldau.broker.log.flush import Durability
from moldau.broker.log.flushing import LogFlusher
from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_snapshot import ProducerSnapshots
from moldau.broker.log.producer_state import ProducerState
from moldau.broker.log.reading import SegmentsReader
from moldau.broker.log.recovery import Opening, RecoveredLog, open_directory
from moldau.broker.log.replacing import SegmentReplacer
from moldau.broker.log.retention import Retention
from moldau.broker.log.rolling import SegmentRoller
from moldau.broker.log.segments import Segments
from moldau.broker.log.state import LogState
from moldau.broker.log.truncation import LogHistory, Truncation, save_epochs
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Batch
from moldau.runtime.files import Files


class PartitionLog:
    """One partition's log; see the module."""

    def __init__(
        self, files: Files, directory: str, config: LogConfig, found: RecoveredLog, owner: Owner
    ) -> None:
        state = LogState(files, directory, config, found, owner)
        self.state = state
        self.notes = found.notes
        """The repairs that were made when the log was opened, in words."""
        self.rolling = SegmentRoller(state)
        self.replacing = SegmentReplacer(state)
        self.appending = LogAppender(state, self.rolling)
        self.reading = SegmentsReader(state)
        self.retention = Retention(state, self.rolling, self.replacing)
        self.truncation = Truncation(state, self.reading, self.replacing)
        self.flushing = LogFlusher(state)
        # The methods of every request, without another call in between.
        self.append_usual = self.appending.append_usual
        self.append_batch = self.appending.append_batch
        self.append_small = self.appending.append_small
        self.append_admitted = self.appending.append_admitted
        self.judge = self.appending.judge
        self.append_own = self.appending.append_own
        self.append_as_leader = self.appending.append_as_leader
        self.append_as_follower = self.appending.append_as_follower
        self.read = self.reading.read
        self.update_high_watermark = state.update_high_watermark

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        opening: Opening,
        owner: Owner | None = None,
    ) -> PartitionLog:
        """Open the log in the directory, and recover it if needed. Create a missing directory."""
        if not opening.is_there:
            files.make_dirs(directory)
        found = open_directory(files, directory, config, opening)
        log = cls(files, directory, config, found, owner or Owner())
        log.state.jitter = opening.jitter
        log.state.segments.active.created_ms = opening.now_ms
        if found.epochs_changed:
            save_epochs(log.state, is_file_there=found.is_epochs_file_there)
        log.state.update_high_watermark(opening.high_watermark)
        if owner is not None:
            log.segments.release_files()
        return log

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory!r}, {self.log_start_offset}-{self.log_end_offset})"

    # Facts.

    @property
    def files(self) -> Files:
        return self.state.files

    @property
    def directory(self) -> str:
        return self.state.directory

    @property
    def config(self) -> LogConfig:
        return self.state.config

    @property
    def segments(self) -> Segments:
        return self.state.segments

    @property
    def producers(self) -> ProducerState:
        return self.state.producers

    @property
    def snapshots(self) -> ProducerSnapshots:
        return self.state.snapshots

    @property
    def leader_epochs(self) -> LeaderEpochs:
        return self.state.leader_epochs

    @property
    def durability(self) -> Durability:
        return self.state.durability

    @property
    def failure(self) -> Exception | None:
        return self.state.failure

    @property
    def log_start_offset(self) -> int:
        return self.state.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        return self.state.local_log_start_offset

    @property
    def high_watermark(self) -> int:
        return self.state.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.state.last_stable_offset

    @property
    def log_end_offset(self) -> int:
        return self.state.log_end_offset

    @property
    def flushed_end_offset(self) -> int:
        return self.state.flushed_end_offset

    @property
    def recovery_point(self) -> int:
        return self.state.recovery_point

    @property
    def persisted_recovery_point(self) -> int:
        return self.state.persisted_recovery_point

    @property
    def truncation_count(self) -> int:
        return self.state.truncation_count

    @property
    def size_bytes(self) -> int:
        """The bytes in all segments."""
        return sum(each.size_bytes for each in self.state.segments)

    # Reading.

    def batches(self, offset: int, upper_offset: int | None = None) -> Iterator[Batch]:
        """Iterate over batches, like `SegmentsReader.batches`."""
        return self.reading.batches(offset, upper_offset)

    # Moving the start and the end.

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log's start up, like `Retention.raise_start`."""
        return self.retention.raise_start(offset)

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete the segments that are too old or before the log's start. Return how many."""
        retention = self.retention
        if not retention.expire(now_ms):
            return 0
        if not retention.is_head_durable:
            self.flushing.flush()
        self.state.persist_points()
        return retention.drop_expired(now_ms)

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset`, like `Truncation.truncate_to`. Durable on return."""
        return self.truncation.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records, like `Truncation.truncate_fully_and_start_at`. Durable on return."""
        self.truncation.truncate_fully_and_start_at(offset)

    def begin_behind(self, history: LogHistory, log_start_offset: int, now_ms: int) -> None:
        """Begin behind remote records, like `Truncation.begin_behind`. Durable on return."""
        self.truncation.begin_behind(history, log_start_offset, now_ms)

    # Durability and service.

    def flush(self, *, is_last: bool = False) -> None:
        """Make the log durable, like `LogFlusher.flush`."""
        self.flushing.flush(is_last=is_last)

    def configure(self, config: LogConfig) -> None:
        """Use other settings from the next append on."""
        state = self.state
        if config is state.config:
            return
        state.config = config
        self.appending.learn(config)
        state.producers.expiration_ms = config.producer_expiration_ms
        for segment in state.segments:
            segment.configure(config)

    def move(self, directory: str, *, sync: bool = True) -> None:
        """Rename the directory, for example before it is deleted. With `sync` the name is durable
        on return, otherwise after a sync of the parent directory."""
        self.replacing.finish()
        state = self.state
        above = state.directory.rpartition("/")[0]
        try:
            state.files.rename(state.directory, directory)
            if sync:
                state.files.sync_dir(above)
        except OSError as error:
            state.fail(error)
        state.directory = directory
        state.snapshots.move(directory)
        for segment in [*state.segments, *(segment for _, segment in state.deleted)]:
            segment.move(directory)

    def close(self) -> None:
        """Make everything durable except the name of the directory, and close the files. After a
        failure, only close the files."""
        self.flushing.settle()
        self.abandon()

    def abandon(self) -> None:
        """Close all files without a flush, and fail every later call: a request that waits for a
        flush of a deleted log may still call `flushing`."""
        state = self.state
        state.take_out_of_service(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log is closed"))
        for segment in [*state.segments, *(segment for _, segment in state.deleted)]:
            segment.forget()

    # Replacing another log, for `future_log`.

    def adopt_epochs(self, epochs: LeaderEpochs, other: PartitionLog) -> None:
        """Replace the epochs derived from the batches by these, and begin where `other` does."""
        state = self.state
        state.leader_epochs = epochs
        state.durability.epochs_changed()
        start = other.log_start_offset
        if other.config.is_tiered:
            state.log_start_offset = start
            state.local_log_start_offset = other.local_log_start_offset
        state.begin_at(max(start, state.log_start_offset))

    def adopt(self, other: PartitionLog, owner: Owner) -> None:
        """Take over the state of `other`, whose batches this log holds. `owner` is the owner from
        now on."""
        state, theirs = self.state, other.state
        state.owner = owner
        state.segments.hand_to(owner.files)
        state.jitter, state.leader_epoch = theirs.jitter, theirs.leader_epoch
        self.adopt_epochs(theirs.leader_epochs, other)
        state.producers = theirs.producers
        self.configure(theirs.config)
        state.high_watermark = theirs.high_watermark

    def enter_service(self, owner: Owner) -> None:
        """Give a log that was opened without an owner, perhaps in a thread, to its owner."""
        self.state.owner = owner
        self.state.segments.hand_to(owner.files)

    def disown(self) -> None:
        """Detach a log that another one has replaced: report no disk errors to the owner, and
        ignore running flushes."""
        self.state.owner = Owner()
        self.state.truncation_count += 1
