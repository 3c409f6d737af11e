"""One partition's log: what is appended, what may be read, where it begins and ends.

Invariants:
* log_start_offset <= high_watermark <= log_end_offset, last_stable_offset <= high_watermark, and
  nothing but `truncate_...` makes an end smaller.
* An append is one write of the bytes that came in, stamped in place. It is in the page cache when
  `append_...` returns, and durable when a flush that began later has ended.
* After an OSError from the disk nothing is appended or flushed again (`failure`): what of it is
  there, nobody knows. The log's owner takes the directory out of service.
* No clock and no task in here: the time is an argument, and the one call that may stall is made by
  whoever has a thread for it (`begin_flush`, `FlushJob.run`, `end_flush`).

A log is used from one thread. Readers get pieces of files, which stay valid whatever happens to the
log afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from moldau.broker.log import names, retention
from moldau.broker.log.admission import (
    NO_APPEND_TIME,
    admit,
    as_kafka_error,
    checked_batches,
    rules_of,
    stamped,
)
from moldau.broker.log.appended import Appended as Appended
from moldau.broker.log.appended import Owner as Owner
from moldau.broker.log.appended import new_appended
from moldau.broker.log.flush import Durability, FlushJob
from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.offset_lookup import OffsetAt, find_offset
from moldau.broker.log.producer_state import Origin
from moldau.broker.log.recovery import Found, Opening, open_directory, replay
from moldau.broker.log.replacement import replace as replace_files
from moldau.broker.log.segment import Segment
from moldau.broker.log.segments import Segments
from moldau.broker.log.slice import LogSlice
from moldau.broker.log.transaction_index import AbortedTransaction, collect_aborted
from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Batch, BatchHeader, Buffer, read_header, stamp
from moldau.runtime.files import Files

NO_TIMESTAMP: Final = -1


class PartitionLog:
    """See the module. `segments` and the cores beside it are for reading, by whoever needs them."""

    def __init__(
        self, files: Files, directory: str, config: LogConfig, found: Found, owner: Owner
    ) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        self.segments = Segments(found.segments)
        self.producers = found.producers
        self.snapshots = found.snapshots
        self.leader_epochs = found.epochs
        self.log_start_offset = found.log_start_offset
        self.log_end_offset = self.segments.active.next_offset
        self.high_watermark = self.log_start_offset
        self.flushed_end_offset = found.flushed_end_offset
        self.durability = Durability(-1)
        self._found_end = -1
        self.persisted_recovery_point = 0
        """What the directory's checkpoint says for sure; kept by whoever writes that."""
        self.claimed_recovery_point = 0
        """The most that it may say, while it is being written."""
        self.failure: Exception | None = None
        self.notes = found.notes
        self._owner = owner
        self._rules = rules_of(config)
        self._usual_age_ms = config.usual_age_ms
        self._jitter = 0.0
        self._bound = (-1, -1, 0)  # offset, segment's base, position: the last bound looked up
        self._truncations = 0
        self._oldest_unflushed_ms: int | None = None
        self._leader_epoch = self.leader_epochs.latest_epoch
        self._deleted: list[tuple[int, Segment]] = []

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        opening: Opening,
        owner: Owner | None = None,
    ) -> PartitionLog:
        """Open what is in the directory, made when it is missing; recovers what needs it."""
        if not opening.is_there:
            files.make_dirs(directory)
        found = open_directory(files, directory, config, opening)
        log = cls(files, directory, config, found, owner or Owner())
        log.persisted_recovery_point = log.claimed_recovery_point = opening.recovery_point
        log._jitter = opening.jitter
        active, is_clean = log.segments.active, opening.is_clean and log.log_end_offset > 0
        active.created_ms = opening.now_ms
        log.durability = Durability(active.base_offset, is_clean, found.epochs_changed)
        log._found_end = log.log_end_offset
        log.update_high_watermark(opening.high_watermark)
        return log

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory!r}, {self.log_start_offset}-{self.log_end_offset})"

    # Appending.

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> Appended:
        """Give offsets to batches and write them: one from a client, any number from ourselves.

        Bytes that may be written are stamped in place. KafkaError refuses all of it.
        """
        if self.failure is not None:
            self._refuse_failed()
        if origin is not Origin.CLIENT:
            return self._append_own(records, leader_epoch, now_ms, transaction_version)
        data, delta, max_timestamp, producer_id, append_time_ms = admit(
            records, self.config, self._rules, now_ms
        )
        base = self.log_end_offset
        last = base + delta
        append = None
        if producer_id >= 0:
            append = self.producers.prepare(origin, transaction_version=transaction_version)
            batch = Batch(read_header(data), data)
            duplicate = append.add(batch, base_offset=base, timestamp=max_timestamp)
            if duplicate is not None:
                return Appended(
                    duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True
                )
        stamp(data, base, leader_epoch)
        try:
            active = self.segments.active
            first = active.first_timestamp
            if (
                first is None
                or first < 0
                or max_timestamp - first > self._usual_age_ms
                or not active.has_room_for(len(data), last)
            ):
                self._make_room(len(data), last, max_timestamp, now_ms)
                active = self.segments.active
            if leader_epoch != self._leader_epoch:
                self._begin_epoch(leader_epoch, base)
            active.append(data, last, max_timestamp)
        except OSError as error:
            self._fail(error)
        self.log_end_offset = last + 1
        if append is None:
            self.producers.end_offset = last + 1
        else:
            self.producers.commit(append)
        if self._oldest_unflushed_ms is None:
            self._oldest_unflushed_ms = now_ms
        return new_appended((base, last, append_time_ms, False))

    def _append_own(
        self, records: Buffer, leader_epoch: int, now_ms: int, transaction_version: int
    ) -> Appended:
        """What the broker made itself: coordinators' records, markers, the metadata log's."""
        append_time_ms = now_ms if self.config.is_append_time else None
        base = self.log_end_offset
        data, end = stamped(records, base, leader_epoch, append_time_ms)
        self._append_stamped(data, Origin.COORDINATOR, now_ms, transaction_version)
        return Appended(base, end - 1, NO_APPEND_TIME if append_time_ms is None else now_ms)

    def append_as_follower(self, records: Buffer, now_ms: int) -> Appended:
        """Write batches as the leader has them. A batch cut short at the end is left out.

        KafkaError when a checksum is wrong, or when they do not go on where this log ends.
        """
        if self.failure is not None:
            self._refuse_failed()
        return self._append_stamped(records, Origin.REPLICATION, now_ms, 0)

    def _append_stamped(
        self, records: Buffer, origin: Origin, now_ms: int, transaction_version: int
    ) -> Appended:
        """Write batches that have their offsets; as many at once as fit a segment."""
        batches = checked_batches(records, self.log_end_offset)
        if not batches:
            raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch")
        append = self.producers.prepare(origin, transaction_version=transaction_version)
        for batch in batches:
            append.add(batch)
        view = memoryview(records)
        pending: list[Batch] = []
        size = 0
        try:
            for batch in batches:
                header = batch.header
                if not self._fits(header, size, now_ms):
                    self._write(view, pending)
                    pending, size = [], 0
                    if self.segments.active.size_bytes:
                        self.roll(now_ms)
                pending.append(batch)
                size += header.size_bytes
                if header.partition_leader_epoch != self._leader_epoch:
                    self._begin_epoch(header.partition_leader_epoch, header.base_offset)
            self._write(view, pending)
            aborted = self.producers.commit(append)
            if aborted:
                self._note_aborted(aborted)
        except OSError as error:
            self._fail(error)
        if self._oldest_unflushed_ms is None:
            self._oldest_unflushed_ms = now_ms
        return Appended(batches[0].header.base_offset, self.log_end_offset - 1)

    def _write(self, view: memoryview, batches: Sequence[Batch]) -> None:
        if batches:
            self.segments.active.append_all(view[batches[0].position : batches[-1].end], batches)
            self.log_end_offset = batches[-1].header.next_offset

    def _note_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Index transactions by the segment that holds their marker."""
        for each in aborted:
            segment = self.segments[self.segments.index_of(each.last_offset)]
            segment.transaction_index.append(each)

    def _begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Until a flush has saved the epochs, the batches tell them."""
        if leader_epoch >= 0 and self.leader_epochs.assign(leader_epoch, start_offset):
            self.durability.epochs_changed()
        self._leader_epoch = leader_epoch

    # Rolling.

    def _make_room(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        active = self.segments.active
        if size > self.config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                size_bytes=size,
                segment_bytes=self.config.segment_bytes,
            )
        if not active.has_room_for(size, last_offset) or self._is_due(
            active, max_timestamp, now_ms
        ):
            self.roll(now_ms)

    def _fits(self, header: BatchHeader, pending: int, now_ms: int) -> bool:
        active = self.segments.active
        return active.has_room_for(
            header.size_bytes, header.last_offset, pending
        ) and not self._is_due(active, header.max_timestamp, now_ms)

    def _is_due(self, active: Segment, max_timestamp: int, now_ms: int) -> bool:
        """Whether the segment has been in use for `segment.ms`, by its records' time if they
        have one."""
        config = self.config
        first = active.first_timestamp
        if first is not None and first >= 0:
            age = max_timestamp - first
        else:
            age = now_ms - active.created_ms
        limit = config.segment_ms
        if config.segment_jitter_ms:
            limit -= int(self._jitter * min(config.segment_jitter_ms, limit))
        return age > limit and active.size_bytes > 0

    def roll(self, now_ms: int) -> None:
        """Go on in a new segment; an empty one is kept."""
        active = self.segments.active
        if not active.size_bytes and active.base_offset == self.log_end_offset:
            active.created_ms = now_ms
            return
        active.next_offset = base = self.log_end_offset
        try:
            active.seal()
            if not self.durability.is_home_durable:
                # Or a loss of power could leave the second segment without the first.
                self.files.sync_dir(self.directory)
            self.snapshots.take(self.producers, sync=False)
            segment = Segment.create(self.files, self.directory, base, self.config)
        except OSError as error:
            self._fail(error)
        segment.created_ms = now_ms
        self.segments.append(segment)
        self.durability.names_changed()

    # Reading.

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper_offset: int | None = None,
        *,
        min_one_batch: bool = True,
    ) -> LogSlice:
        """What lies from the batch that holds `offset` on, below `upper_offset` (the log's end).

        The last batch may be cut short by `max_bytes`; with `min_one_batch` the first one is whole
        whatever its size, without it a first batch that does not fit gives an empty slice.
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
        """Where in a segment the part below the offset `upper` ends."""
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
        """The batches from the one that holds `offset` on, for those who fold over the log."""
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
        """The first offset of the batch that holds `offset`, which may lie before it; `offset`
        itself where no batch does."""
        try:
            found = self.segments[self.segments.index_of(offset)].find(offset)
        except OSError as error:
            self._fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
        return offset if found is None else min(offset, found.base_offset)

    def aborted_transactions(self, offset: int, read: LogSlice) -> list[AbortedTransaction]:
        """What a read_committed consumer must skip in what it read from `offset` on."""
        index = self.segments.index_of(offset)
        segment = self.segments[index]
        bound = segment.offset_index.upper_bound(read.position + len(read))
        upper = self.segments.end_of(index) if bound is None else bound
        indexes = (
            self.segments[number].transaction_index for number in range(index, len(self.segments))
        )
        try:
            return collect_aborted(indexes, offset, upper)
        except OSError as error:
            self._fail(error)

    def find_offset(self, timestamp: int, upper_offset: int | None = None) -> OffsetAt | None:
        """ListOffsets: see `offset_lookup`."""
        upper = self.log_end_offset if upper_offset is None else upper_offset
        try:
            return find_offset(self, timestamp, upper)
        except OSError as error:
            self._fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error

    @property
    def size_bytes(self) -> int:
        """Bytes in its segments."""
        return sum(each.size_bytes for each in self.segments)

    # What is stable.

    @property
    def last_stable_offset(self) -> int:
        """Below it no transaction is open."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def update_high_watermark(self, offset: int) -> bool:
        """All below `offset` is replicated; whether that is news. Kept within the log."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        return True

    # Forgetting.

    def increment_log_start_offset(self, offset: int) -> bool:
        """The log begins at `offset` from now on (DeleteRecords, a leader's start); whether that
        is news. Durable with the next points of its directory, after which `forget_epochs`; its
        segments go with the next `delete_old_segments`."""
        if offset > self.high_watermark:
            self._refuse_offset(offset)
        if offset <= self.log_start_offset:
            return False
        self._begins_at(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> int:
        """Let go of the segments that retention or the log's start has passed; how many."""
        if not self.expire_segments(now_ms):
            return 0
        if not self.is_head_durable:
            self.flush()
        self._persist_points()
        return self.drop_expired(now_ms)

    @property
    def is_head_durable(self) -> bool:
        """Whether the segment at the log's start may become the first."""
        number = self.segments.index_of(self.log_start_offset)
        return self.segments[number].base_offset <= self.durability.newest_head

    def expire_segments(self, now_ms: int) -> int:
        """The first half of that, for all logs of a directory before one `persist_points`: raise
        the log's start over the segments that may go."""
        if self.failure is not None:
            return 0
        ends = self.log_start_offset, self.high_watermark
        try:
            count = retention.count_expired(self.segments, self.config, now_ms, *ends)
        except OSError as error:
            self._fail(error)
        if count == len(self.segments):
            self.roll(now_ms)
        if count:
            self._begins_at(max(self.log_start_offset, self.segments[count].base_offset))
        return count

    def drop_expired(self, now_ms: int) -> int:
        """The second half: let go of what lies below the log's start, which is durable now, as must
        be the name of the segment that is the first then. Were they not, a loss of power could
        bring some of the files back, and the log would begin with a hole.
        """
        count = 0
        while count + 1 < len(self.segments) and self.segments.end_of(count) <= (
            self.log_start_offset
        ):
            count += 1
        while count and self.segments[count].base_offset > self.durability.newest_head:
            count -= 1  # the next round, when there has been a flush
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
        """Only after the log's start is durable: a log that began earlier again would miss them."""
        if self.leader_epochs.truncate_from_start(self.log_start_offset):
            self.durability.epochs_changed()

    def remove_deleted(self, now_ms: int) -> int:
        """Remove the files of segments that were let go long enough ago; how many."""
        due = self.take_deleted(now_ms)
        try:
            for segment in due:
                segment.remove()
        except OSError as error:
            self._fail(error)
        return len(due)

    def take_deleted(self, now_ms: int) -> list[Segment]:
        """The same segments, for the caller to `remove` where it does not hold up anybody: freeing
        a large file takes time. Nobody else knows them any more."""
        if not self._deleted:
            return []
        due = [segment for deadline, segment in self._deleted if deadline <= now_ms]
        self._deleted = [each for each in self._deleted if each[0] > now_ms]
        for segment in due:
            segment.forget()
        return due

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment], now_ms: int) -> None:
        """Put cleaned segments (`.cleaned`, sealed and synced) in the place of sealed ones.

        `old` must be durable: behind the recovery point, a gap would be taken for a lost tail.
        """
        assert all(each.are_indexes_durable for each in old)
        if self.persisted_recovery_point < self.recovery_point:
            self._persist_points()
        bases = {each.base_offset for each in new}
        try:
            replace_files(self.files, self.directory, new, old)
            for segment in old:
                if segment.base_offset not in bases:
                    self.snapshots.remove(segment.base_offset)
        except OSError as error:
            self._fail(error)
        gone = set(map(id, old))
        kept = [each for each in self.segments if id(each) not in gone]
        for segment in new:
            segment.are_indexes_durable = True
        self.segments.replace_all(sorted([*kept, *new], key=lambda each: each.base_offset))
        self._bound = (-1, -1, 0)
        self._deleted += [(now_ms + self.config.file_delete_delay_ms, each) for each in old]

    # Truncating.

    def truncate_to(self, offset: int) -> bool:
        """Drop all from `offset` on; whether there was anything. Durable on return.

        A batch that holds `offset` goes as a whole.
        """
        if offset >= self.log_end_offset:
            return False
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
        self._ends_at(target.next_offset)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Become empty, with `offset` the next one. Durable on return."""
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
        self.leader_epochs.clear()
        self._ends_at(offset)
        self._persist_points()

    def _lower_recovery_point(self, index: int) -> None:
        """Recovery must look at what will be written in the place of what goes; say so first."""
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

    def _ends_at(self, end: int) -> None:
        """Everything but the segments learns that the log ends there."""
        self._truncations += 1
        self.durability.cut(self.segments.active.base_offset)
        self._bound = (-1, -1, 0)
        self.log_end_offset = end
        self.flushed_end_offset = min(self.flushed_end_offset, end)
        self.log_start_offset = min(self.log_start_offset, end)
        self.high_watermark = min(self.high_watermark, end)
        try:
            self.leader_epochs.truncate_from_end(end)
            self.durability.epochs_changed()
            self.snapshots.truncate(self.log_start_offset, end)
            self.snapshots.load_latest(self.producers, self.log_start_offset, 0)
            replay(self.producers, self.batches(self.producers.end_offset))
        except OSError as error:
            self._fail(error)
        self.producers.on_high_watermark(self.high_watermark)
        self._leader_epoch = self.leader_epochs.latest_epoch

    @property
    def truncation_count(self) -> int:
        """How often its end became smaller."""
        return self._truncations

    # Taking another log's place: for `future_log`.

    def adopt_epochs(self, epochs: LeaderEpochs, log_start_offset: int) -> None:
        """Know these epochs instead of those that its batches tell; and the log begins there."""
        self.leader_epochs = epochs
        self.durability.epochs_changed()
        self._begins_at(max(log_start_offset, self.log_start_offset))

    def adopt(self, other: PartitionLog, owner: Owner) -> None:
        """Be what `other` was, whose batches it holds; `owner` is whose it is from now on."""
        self._owner = owner
        self._jitter, self._leader_epoch = other._jitter, other._leader_epoch
        self.adopt_epochs(other.leader_epochs, other.log_start_offset)
        self.producers = other.producers
        self.configure(other.config)
        self.high_watermark = other.high_watermark

    def disown(self) -> None:
        """Another log is what this one was: nobody hears of its disk, or takes its flushes."""
        self._owner = Owner()
        self._truncations += 1

    # Making durable.

    @property
    def recovery_point(self) -> int:
        """Below it everything is durable, indexes included: recovery need not look there."""
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
        """What to sync so that all that is in the log now is durable."""
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
        """The job has run, or failed with `error`, which takes the log out of service."""
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
        """Make all that is in the log durable, now, and recovery trust its sealed segments. With
        `is_last` all but the name of its directory."""
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
        """Make all durable but the name of its directory, and let go; that only after a failure."""
        if self.failure is None and self._is_as_found:
            self.segments.active.are_indexes_durable = True
        elif self.failure is None:
            try:
                if self.producers.end_offset > max(self.log_start_offset, self.snapshots.newest):
                    self.snapshots.take(self.producers, sync=True)
                self.segments.active.seal()
                self.durability.names_changed()
                if self.log_end_offset:  # whoever leads an empty one makes it anew
                    self.flush(is_last=True)
            except OSError as error:
                self._fail(error)
        self.abandon()

    @property
    def _is_as_found(self) -> bool:
        """Whether it was closed in order the last time, and nothing was written since."""
        is_grown = self.log_end_offset != self._found_end or self._truncations
        return self.durability.is_settled and not is_grown

    def abandon(self) -> None:
        """Let go of all files as they are."""
        for segment in [*self.segments, *(segment for _, segment in self._deleted)]:
            segment.forget()

    # Settings, names, trouble.

    def configure(self, config: LogConfig) -> None:
        """Other settings from the next append on."""
        self.config = config
        self._rules = rules_of(config)
        self._usual_age_ms = config.usual_age_ms
        self.producers.expiration_ms = config.producer_expiration_ms
        for segment in self.segments:
            segment.configure(config)

    def move(self, directory: str, *, sync: bool = True) -> None:
        """Rename its directory, as before it is deleted; durable on return with `sync`, else after
        a sync of the directory above."""
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

    def _refuse_failed(self) -> NoReturn:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, directory=self.directory, error=str(self.failure)
        ) from self.failure

    def take_out_of_service(self, error: Exception) -> None:
        """Refuse everything from now on, because the directory has failed elsewhere."""
        if self.failure is None:
            self.failure = error

    def _fail(self, error: OSError) -> NoReturn:
        """The disk refused: out of service."""
        if self.failure is None:
            self.failure = error
            self._owner.on_failure(error)
        self._refuse_failed()
