"""One partition's log: what may be read, where it begins and ends, what is durable.

Appending is in the base class, `tail.LogTail`.

Invariants:
* log_start_offset <= high_watermark <= log_end_offset, last_stable_offset <= high_watermark, and
  only `truncate_...` moves an end back.
* An append is one write of the received bytes, stamped in place. The bytes are in the page cache
  when `append_...` returns. They are durable when a flush that began later has ended.
* After an OSError from the disk nothing is appended or flushed again (`failure`), because it is
  unknown which bytes reached the disk. The log's owner takes the directory out of service.
* This module has no clock and no task. The time is an argument. The one call that may stall is run
  by the caller in a thread (`begin_flush`, `FlushJob.run`, `end_flush`).

A log is used from one thread. Readers get slices of files, which stay valid whatever happens to the
log afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from moldau.broker.log import names, retention
from moldau.broker.log.admission import as_kafka_error
from moldau.broker.log.appended import Appended as Appended
from moldau.broker.log.appended import Owner as Owner
from moldau.broker.log.checkpoint import write_pairs
from moldau.broker.log.flush import Durability, FlushJob
from moldau.broker.log.gaplessness import lower_mark
from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.offset_lookup import OffsetAt, find_offset
from moldau.broker.log.recovery import Found, Opening, open_directory, replay
from moldau.broker.log.replacement import Swap
from moldau.broker.log.segment import Segment
from moldau.broker.log.slice import LogSlice
from moldau.broker.log.tail import LogTail
from moldau.broker.log.transaction_index import AbortedTransaction, collect_aborted
from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Batch
from moldau.runtime.files import Files


class PartitionLog(LogTail):
    """One partition's log; see the module. Callers may read `segments` and the cores, not change
    them."""

    def __init__(
        self, files: Files, directory: str, config: LogConfig, found: Found, owner: Owner
    ) -> None:
        super().__init__(files, directory, config, found, owner)
        self.log_start_offset = found.log_start_offset
        self.high_watermark = self.log_start_offset
        self.flushed_end_offset = found.flushed_end_offset
        self._found_end = -1
        self.persisted_recovery_point = 0
        """The recovery point that the directory's checkpoint certainly holds. Set by the
        checkpoint's writer."""
        self.claimed_recovery_point = 0
        """The highest recovery point that the checkpoint may hold while it is being written."""
        self.notes = found.notes
        self._bound = (-1, -1, 0)  # offset, base offset, position: the last bound looked up
        self._truncations = 0
        self._deleted: list[tuple[int, Segment]] = []
        self._swap: tuple[Swap, int] | None = None

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        opening: Opening,
        owner: Owner | None = None,
    ) -> PartitionLog:
        """Open the log in the directory, and recover it where needed. Create a missing
        directory."""
        if not opening.is_there:
            files.make_dirs(directory)
        found = open_directory(files, directory, config, opening)
        log = cls(files, directory, config, found, owner or Owner())
        log.persisted_recovery_point = log.claimed_recovery_point = found.recovery_point
        log._jitter = opening.jitter
        active, is_clean = log.segments.active, found.is_clean and log.log_end_offset > 0
        active.created_ms = opening.now_ms
        log.durability = Durability(active.base_offset, is_clean)
        log._found_end = log.log_end_offset
        if found.epochs_changed:
            log._save_epochs()
        log.update_high_watermark(opening.high_watermark)
        return log

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory!r}, {self.log_start_offset}-{self.log_end_offset})"

    # Reading.

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper_offset: int | None = None,
        *,
        min_one_batch: bool = True,
    ) -> LogSlice:
        """Return the slice from the batch that holds `offset` up to `upper_offset` (default: the
        log's end).

        `max_bytes` may cut the last batch short. With `min_one_batch` the first batch is always
        whole, whatever its size. Without it, a first batch that does not fit gives an empty slice.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            self._refuse_offset(offset)
        upper = self.log_end_offset
        if upper_offset is not None and upper_offset < upper:
            upper = upper_offset
        active = self.segments.active
        if offset >= upper:
            return LogSlice(active.source, active.size_bytes, 0)
        try:
            index = self.segments.index_of(offset)
            found = self.segments[index].find(offset)
            while found is None and index + 1 < len(self.segments):
                index += 1
                found = self.segments[index].find(offset)
            if found is None or found.base_offset >= upper:
                return LogSlice(active.source, active.size_bytes, 0)
            segment = self.segments[index]
            size = self._position_of_bound(index, upper) - found.position
        except OSError as error:
            self._fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
        if found.size_bytes > max_bytes:
            size = min(size, found.size_bytes) if min_one_batch else 0
        elif size > max_bytes:
            size = max_bytes
        return LogSlice(segment.source, found.position, size)

    def _position_of_bound(self, index: int, upper: int) -> int:
        """Return the position in a segment where the batches below the offset `upper` end."""
        segment = self.segments[index]
        if upper >= self.segments.end_of(index):
            return segment.size_bytes
        bound = self._bound
        if bound[0] == upper and bound[1] == segment.base_offset:
            return bound[2]
        found = segment.find(upper)
        position = segment.size_bytes if found is None else found.position
        self._bound = (upper, segment.base_offset, position)
        return position

    def batches(self, offset: int, upper_offset: int | None = None) -> Iterator[Batch]:
        """Iterate over the batches from the one that holds `offset`, to fold over the log."""
        upper = self.log_end_offset if upper_offset is None else upper_offset
        for index in range(self.segments.index_of(offset), len(self.segments)):
            segment = self.segments[index]
            found = segment.find(offset)
            if found is None:
                continue
            for batch in segment.batches(found.position):
                if batch.header.base_offset >= upper:
                    return
                yield batch

    def batch_start(self, offset: int) -> int:
        """Return the first offset of the batch that holds `offset`, which may be lower. Return
        `offset` itself if no batch holds it."""
        try:
            found = self.segments[self.segments.index_of(offset)].find(offset)
        except OSError as error:
            self._fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
        return offset if found is None else min(offset, found.base_offset)

    def aborted_transactions(self, offset: int, read: LogSlice) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read_committed consumer must skip in what it read
        from `offset`."""
        index = self._index_of_source(offset, read)
        indexes = (
            self.segments[number].transaction_index for number in range(index, len(self.segments))
        )
        try:
            bound = self.segments[index].offset_index.upper_bound(read.position + len(read))
            upper = self.segments.end_of(index) if bound is None else bound
            return collect_aborted(indexes, offset, upper)
        except OSError as error:
            self._fail(error)

    def _index_of_source(self, offset: int, read: LogSlice) -> int:
        """Return the number of the segment that was read from `offset`. This is a later segment
        than the one that holds the offset if that one ends before it, as cleaned segments do."""
        index = self.segments.index_of(offset)
        for number in range(index, len(self.segments)):
            if self.segments[number].source is read.source:
                return number
        return index  # nothing was read, or the segment was replaced meanwhile

    def find_offset(self, timestamp: int, upper_offset: int | None = None) -> OffsetAt | None:
        """Answer ListOffsets; see `offset_lookup`."""
        upper = self.log_end_offset if upper_offset is None else upper_offset
        try:
            return find_offset(self, timestamp, upper)
        except OSError as error:
            self._fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error

    @property
    def size_bytes(self) -> int:
        """The bytes in all segments."""
        return sum(each.size_bytes for each in self.segments)

    # What is stable.

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def update_high_watermark(self, offset: int) -> bool:
        """Everything below `offset` is replicated. Limit it to the log's end. Return whether the
        high watermark rose."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        return True

    # Forgetting.

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log's start up to `offset` (DeleteRecords, or a leader's start). Return whether
        it moved.

        The start is durable with the next checkpoint of the directory's points; call
        `forget_epochs` after that. The segments go with the next `delete_old_segments`.
        """
        if offset > self.high_watermark:
            self._refuse_offset(offset)
        if offset <= self.log_start_offset:
            return False
        self._begins_at(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete the segments that retention or the log's start has passed. Return how many."""
        if not self.expire_segments(now_ms):
            return 0
        if not self.is_head_durable:
            self.flush()
        self._persist_points()
        return self.drop_expired(now_ms)

    @property
    def is_head_durable(self) -> bool:
        """Whether the segment at the log's start may become the first one."""
        number = self.segments.index_of(self.log_start_offset)
        return self.segments[number].base_offset <= self.durability.newest_head

    def expire_segments(self, now_ms: int) -> int:
        """The first half of `delete_old_segments`: raise the log's start over the segments that may
        go. Return how many. Call it for all logs of a directory before one `persist_points`."""
        if self.failure is not None:
            return 0
        ends = self.log_start_offset, self.high_watermark
        try:
            count = retention.count_expired(self.segments, self.config, now_ms, *ends)
        except OSError as error:
            self._fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
        if count == len(self.segments):
            self.roll(now_ms)
        if count:
            self._begins_at(max(self.log_start_offset, self.segments[count].base_offset))
        return count

    def drop_expired(self, now_ms: int) -> int:
        """The second half of `delete_old_segments`: delete what lies below the log's start.

        The log's start must be durable by now, and so must the name of the segment that becomes the
        first. Otherwise a power loss could bring some of the files back, and the log would begin
        with a hole.
        """
        self._finish_replacing()
        count = 0
        while count + 1 < len(self.segments) and self.segments.end_of(count) <= (
            self.log_start_offset
        ):
            count += 1
        while count and self.segments[count].base_offset > self.durability.newest_head:
            count -= 1  # the next round deletes it, after a flush
        gone = list(self.segments)[:count]
        self.forget_epochs()
        try:
            for segment in gone:
                segment.rename(names.DELETED)
                self.snapshots.remove(segment.base_offset)
                self._deleted.append((now_ms + self.config.file_delete_delay_ms, segment))
        except OSError as error:
            self._fail(error)
        self.segments.replace_all(list(self.segments)[count:])
        return count

    def _begins_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.producers.on_log_start_offset(offset)

    def forget_epochs(self) -> None:
        """Drop the leader epochs below the log's start. Call it only after that start is durable:
        if the log began earlier again after a crash, it would miss them."""
        if self.leader_epochs.truncate_from_start(self.log_start_offset):
            self.durability.epochs_changed()

    def remove_deleted(self, now_ms: int) -> int:
        """Remove the files of deleted segments after `file_delete_delay_ms`. Return how many."""
        due = self.take_deleted(now_ms)
        try:
            for segment in due:
                segment.remove()
        except OSError as error:
            self._fail(error)
        return len(due)

    def take_deleted(self, now_ms: int) -> list[Segment]:
        """Like `remove_deleted`, but leave `remove` to the caller. Freeing a large file takes time,
        so the caller does it where nothing waits for it. The log no longer refers to these
        segments."""
        if not self._deleted:
            return []
        due = [segment for deadline, segment in self._deleted if deadline <= now_ms]
        self._deleted = [each for each in self._deleted if each[0] > now_ms]
        for segment in due:
            segment.forget()
        return due

    def can_replace(self, old: Sequence[Segment]) -> bool:
        """Whether the segments are durable and recovery will not check them. Above the recovery
        point, recovery would take a gap for a lost tail."""
        is_known = self.persisted_recovery_point >= self.recovery_point
        return is_known and all(each.are_indexes_durable for each in old)

    def begin_replacing(self, new: Sequence[Segment], old: Sequence[Segment], now_ms: int) -> Swap:
        """Begin to replace sealed segments by cleaned ones (`.cleaned`, sealed and synced). Then
        call `go_on_replacing`, and `sync` in a thread, in turns until `go_on_replacing` returns
        False."""
        assert all(each.are_indexes_durable for each in old)
        assert self._swap is None
        if not self.can_replace(old):
            self._persist_points()
        swap = Swap(self.files, self.directory, new, old)
        self._swap = swap, now_ms
        return swap

    def go_on_replacing(self, swap: Swap) -> bool:
        """Take the next step. Return False when the new segments are in place."""
        if self._swap is None or self._swap[0] is not swap:
            return False  # another change to the segments has finished the replacement
        try:
            if swap.advance():
                return True
        except OSError as error:
            self._fail(error)
        self._replaced()
        return False

    def _finish_replacing(self) -> None:
        """Finish a pending replacement before another change to the segments."""
        if self._swap is not None and self.failure is None:
            try:
                self._swap[0].finish()
            except OSError as error:
                self._fail(error)
            self._replaced()

    def _replaced(self) -> None:
        assert self._swap is not None
        (swap, now_ms), self._swap = self._swap, None
        bases = {each.base_offset for each in swap.new}
        try:
            for segment in swap.old:
                if segment.base_offset not in bases:
                    self.snapshots.remove(segment.base_offset)
        except OSError as error:
            self._fail(error)
        gone = set(map(id, swap.old))
        kept = [each for each in self.segments if id(each) not in gone]
        for segment in swap.new:
            segment.are_indexes_durable = True
        self.segments.replace_all(sorted([*kept, *swap.new], key=lambda each: each.base_offset))
        self._bound = (-1, -1, 0)
        self._deleted += [(now_ms + self.config.file_delete_delay_ms, each) for each in swap.old]

    # Truncating.

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset`, and the whole batch that holds it. Return whether there
        was anything to drop. Durable on return."""
        if offset >= self.log_end_offset:
            return False
        self._finish_replacing()
        if offset <= self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        index = self.segments.index_of(offset)
        target = self.segments[index]
        try:
            self._lower_recovery_point(index)
            self._remove_from(index + 1)
            target.truncate_to(offset)
        except OSError as error:
            self._fail(error)
        self.segments.replace_all(list(self.segments)[: index + 1])
        is_epoch_gone = self.leader_epochs.truncate_from_end(target.next_offset)
        self._ends_at(target.next_offset, is_epoch_gone=is_epoch_gone)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and let the next one have `offset`. Durable on return."""
        self._finish_replacing()
        try:
            self._lower_recovery_point(0)
            self._remove_from(0)
            segment = Segment.create(self.files, self.directory, offset, self.config)
            self.snapshots.remove_all()
            self.files.sync_dir(self.directory)
        except OSError as error:
            self._fail(error)
        self.segments.replace_all([segment])
        self.log_start_offset = self.high_watermark = offset
        self._ends_at(offset, is_epoch_gone=self.leader_epochs.clear())
        self._persist_points()

    def _lower_recovery_point(self, index: int) -> None:
        """Lower the recovery point in the checkpoint before segments are cut. Recovery must check
        what will be written in place of the removed batches."""
        for number in range(index, len(self.segments)):
            self.segments[number].are_indexes_durable = False
        claimed = max(self.persisted_recovery_point, self.claimed_recovery_point)
        if claimed > self.segments[index].base_offset:
            self._owner.persist_points()

    def _remove_from(self, index: int) -> None:
        """Remove segments, the newest first, so that a crash leaves no hole."""
        for number in range(len(self.segments) - 1, index - 1, -1):
            self.segments[number].remove()
        self.files.sync_dir(self.directory)

    def _ends_at(self, end: int, *, is_epoch_gone: bool) -> None:
        """Update everything but the segments: the log ends at `end` now."""
        self._truncations += 1
        self.durability.cut(self.segments.active.base_offset)
        self._bound = (-1, -1, 0)
        self.log_end_offset = end
        self.flushed_end_offset = min(self.flushed_end_offset, end)
        self.log_start_offset = min(self.log_start_offset, end)
        self.high_watermark = min(self.high_watermark, end)
        try:
            lower_mark(self.files, self.directory, end)
            if is_epoch_gone:
                self._save_epochs()
            self.snapshots.truncate(self.log_start_offset, end)
            self.snapshots.load_latest(self.producers, self.log_start_offset, 0)
            replay(self.producers, self.batches(self.producers.end_offset))
        except OSError as error:
            self._fail(error)
        self.producers.on_high_watermark(self.high_watermark)
        self._leader_epoch = self.leader_epochs.latest_epoch

    def _save_epochs(self) -> None:
        """Write the epochs before anything is appended: recovery could not distinguish an epoch
        that was cut off from one whose batches were cleaned. If there is no file yet, a flush
        writes it."""
        self.durability.epochs_changed()
        path = f"{self.directory}/{names.LEADER_EPOCHS}"
        if self.files.exists(path):
            write_pairs(self.files, path, self.leader_epochs.entries)
            self.durability.epochs_saved()

    @property
    def truncation_count(self) -> int:
        """How often the log's end was moved back."""
        return self._truncations

    # Taking the place of another log, for `future_log`.

    def adopt_epochs(self, epochs: LeaderEpochs, log_start_offset: int) -> None:
        """Replace the epochs derived from the batches by these, and raise the log's start to the
        given one."""
        self.leader_epochs = epochs
        self.durability.epochs_changed()
        self._begins_at(max(log_start_offset, self.log_start_offset))

    def adopt(self, other: PartitionLog, owner: Owner) -> None:
        """Take over the state of `other`, whose batches this log holds. `owner` is the owner from
        now on."""
        self._owner = owner
        self._jitter, self._leader_epoch = other._jitter, other._leader_epoch
        self.adopt_epochs(other.leader_epochs, other.log_start_offset)
        self.producers = other.producers
        self.configure(other.config)
        self.high_watermark = other.high_watermark

    def disown(self) -> None:
        """Detach a log that another one has replaced: report no disk errors to the owner, and
        ignore flushes under way."""
        self._owner = Owner()
        self._truncations += 1

    # Making durable.

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is durable, indexes included: recovery need not check
        it."""
        for segment in self.segments:
            if not segment.are_indexes_durable:
                return segment.base_offset
        return self.log_end_offset

    def wants_flush(self, now_ms: int) -> bool:
        """Whether a sealed segment or the flush settings ask for a flush."""
        config = self.config
        if self.log_end_offset - self.flushed_end_offset >= config.flush_messages:
            return True
        oldest = self._oldest_unflushed_ms
        if oldest is not None and now_ms - oldest >= config.flush_ms:
            return True
        count = len(self.segments)
        return count > 1 and not self.segments[count - 2].are_indexes_durable

    def begin_flush(self) -> FlushJob:
        """Return the job that makes durable all that is in the log now."""
        if self.failure is not None:
            self._refuse_failed()
        flushed = self.flushed_end_offset
        unsynced = [
            each
            for each in self.segments
            if each.next_offset > flushed or (each.is_sealed and not each.are_indexes_durable)
        ]
        is_rolled = not self.durability.are_names_durable
        paths = [self.snapshots.path(each.base_offset) for each in unsynced] if is_rolled else []
        self._oldest_unflushed_ms = None
        job = FlushJob(self.files, self.log_end_offset, unsynced, paths)
        job.truncations = self._truncations
        job.head_offset = self.segments.active.base_offset
        self.durability.begin(job, self.directory, self.leader_epochs)
        return job

    def end_flush(self, job: FlushJob, error: OSError | None = None) -> None:
        """Note that the job has run, or that it failed with `error`, which takes the log out of
        service."""
        if error is not None:
            self._fail(error)
        if job.truncations != self._truncations:
            return
        try:
            self.durability.end(job, self.directory)
        except OSError as failure:
            self._fail(failure)
        self.flushed_end_offset = max(self.flushed_end_offset, job.end_offset)
        if job.epochs is None:
            for segment in job.sealed:
                segment.are_indexes_durable = True

    def flush(self, *, is_last: bool = False) -> None:
        """Make everything in the log durable now, and raise the recovery point over its sealed
        segments. With `is_last`, do not sync the name of its directory."""
        is_over = False
        while not is_over:
            job = self.begin_flush()
            job.is_last = is_last
            try:
                job.run()
            except OSError as error:
                self._fail(error)
            self.end_flush(job)
            is_over = job.epochs is None

    def close(self) -> None:
        """Make everything durable but the name of the directory, and close the files. After a
        failure, only close the files."""
        if self.failure is None and self._is_as_found:
            self.segments.active.are_indexes_durable = True
        elif self.failure is None:
            try:
                snapshot = self.snapshots.latest_offset or 0
                if self.producers.end_offset > max(self.log_start_offset, snapshot):
                    self.snapshots.take(self.producers, sync=True)
                self.segments.active.seal()
                self.durability.names_changed()
                if self.log_end_offset:  # the leader of an empty log creates it again
                    self.flush(is_last=True)
            except OSError as error:
                self._fail(error)
        self.abandon()

    @property
    def _is_as_found(self) -> bool:
        """Whether the log was closed cleanly the last time and not written since. Indexes that were
        rebuilt are durable by then."""
        is_grown = self.log_end_offset != self._found_end or self._truncations
        return self.durability.is_settled and not is_grown

    def abandon(self) -> None:
        """Close all files as they are, and fail every later call. A request that waits for a flush
        of a deleted log may still ask for one."""
        self.take_out_of_service(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log is closed"))
        for segment in [*self.segments, *(segment for _, segment in self._deleted)]:
            segment.forget()

    # Settings, names, failures.

    def configure(self, config: LogConfig) -> None:
        """Use other settings from the next append on."""
        self._learn(config)
        self.producers.expiration_ms = config.producer_expiration_ms
        for segment in self.segments:
            segment.configure(config)

    def move(self, directory: str, *, sync: bool = True) -> None:
        """Rename the directory, for example before it is deleted. With `sync` it is durable on
        return, otherwise after a sync of the parent directory."""
        self._finish_replacing()
        above = self.directory.rpartition("/")[0]
        try:
            self.files.rename(self.directory, directory)
            if sync:
                self.files.sync_dir(above)
        except OSError as error:
            self._fail(error)
        self.directory = directory
        self.snapshots.move(directory)
        for segment in [*self.segments, *(segment for _, segment in self._deleted)]:
            segment.move(directory)

    def _persist_points(self) -> None:
        try:
            self._owner.persist_points()
        except OSError as error:
            self._fail(error)

    def _refuse_offset(self, offset: int) -> NoReturn:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            offset=offset,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
        )
