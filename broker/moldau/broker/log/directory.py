"""One log directory: the logs in it, and the files that cover all of them.

Invariants: no other process has the directory (`.lock`). The marker of a clean shutdown is removed
before anything is written, and made only after everything is durable. Recovery points and log
starts on disk are never ahead of the logs.

A disk error takes the whole directory out of service for good: it is unknown what else fails on
that disk, and other directories hold replicas of their own. Its logs reject every request from then
on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeAlias

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets, write_offsets
from moldau.broker.log.checkpoint_job import POINTS, CheckpointJob
from moldau.broker.log.clean_shutdown import (
    NO_BROKER_EPOCH,
    take_clean_shutdown,
    write_clean_shutdown,
)
from moldau.broker.log.log import Owner, PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.meta_properties import MetaProperties, read_meta_properties
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.open_files import advice, is_shortage
from moldau.broker.log.partition_metadata import read_partition_metadata, write_partition_metadata
from moldau.broker.log.recovery import Opening
from moldau.broker.log.segment import Segment
from moldau.errors import ConfigError, CorruptLog
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.runtime.files import FileLock, Files

if TYPE_CHECKING:
    from moldau.broker.log.future_log import FutureLog

ConfigOf: TypeAlias = Callable[[TopicPartition, Uuid | None], LogConfig]
"""Returns the settings of a log that was found, by partition and topic id."""


_CHECKPOINTS: Final = (*POINTS, names.HIGH_WATERMARKS, names.CLEANED_OFFSETS)


@dataclass(slots=True)
class Removal:
    """Files that are not used any more."""

    files: Files
    trees: list[str]
    segments: list[Segment]

    def __bool__(self) -> bool:
        return bool(self.trees or self.segments)

    def run(self) -> int:
        """Remove the files. Return how many logs and segments were removed. May run in a thread."""
        for path in self.trees:
            self.files.remove_tree(path)
        for segment in self.segments:
            segment.remove()
        return len(self.trees) + len(self.segments)


class Left(NamedTuple):
    """A `-future` directory that was found, and what is known of the log in it."""

    path: str
    opening: Opening


class LogDirectory:
    """A log directory. `open` takes it, `load` opens its logs. It is in service until `failure` is
    set or it is closed."""

    def __init__(self, files: Files, path: str, lock: FileLock, meta: MetaProperties | None):
        self.files = files
        self.path = path
        self.meta = meta
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        """The offset up to which each compacted log is clean. Set by the cleaner."""
        self.failure: OSError | CorruptLog | None = None
        self.on_failure: Callable[[LogDirectory], None] = lambda directory: None
        self.was_clean = False
        self.broker_epoch = NO_BROKER_EPOCH
        """The broker epoch from the last clean shutdown, or -1 if the directory was not closed
        cleanly."""
        self.notes: list[str] = []
        """What was found wrong, in words."""
        self.left: dict[TopicPartition, Left] = {}
        """Copies on their way here that an earlier run did not finish."""
        self.futures: dict[TopicPartition, FutureLog] = {}
        """Copies on their way here."""
        self.arriving: dict[TopicPartition, PartitionLog] = {}
        """Those copies whose points are in the checkpoints already, because they are about to
        become logs here."""
        self.departing: set[TopicPartition] = set()
        """Logs that are being copied to another directory. They are not compacted."""
        self.being_cleaned: set[PartitionLog] = set()
        """Logs whose segments a thread may be reading. Their files stay until it has ended."""
        self.are_names_stale = False
        """A log was renamed, and `sync_dir` was not called since."""
        self._lock = lock
        self._deleted: list[tuple[int, str, PartitionLog | None]] = []
        self._are_points_stale = False
        self._half_made: set[str] = set()
        """Directories of logs that could not be created because too many files were open."""
        self._generations = dict.fromkeys(_CHECKPOINTS, 0)
        """How often each checkpoint was written, or became outdated because a log left, so far."""
        self._owner = Owner(self.persist_points, self.fail)

    @classmethod
    def open(cls, files: Files, path: str) -> LogDirectory:
        """Take the directory, and create it if it is missing. Raise ConfigError if another process
        has it."""
        files.make_dirs(path)
        try:
            lock = files.lock(f"{path}/{names.LOCK}")
        except BlockingIOError as error:
            raise ConfigError("another process uses the directory", directory=path) from error
        try:
            return cls(files, path, lock, read_meta_properties(files, path))
        except (OSError, CorruptLog):
            lock.release()
            raise

    @property
    def directory_id(self) -> Uuid:
        """The directory's id, or ZERO_UUID before it was formatted."""
        meta = self.meta
        return ZERO_UUID if meta is None or meta.directory_id is None else meta.directory_id

    # Loading.

    def load(self, config_of: ConfigOf, now_ms: int) -> None:
        """Open every log in the directory, recovering those that need it."""
        try:
            epoch = take_clean_shutdown(self.files, self.path)
            self.was_clean = epoch is not None
            self.broker_epoch = NO_BROKER_EPOCH if epoch is None else epoch
            points = {name: self._read_offsets(name) for name in _CHECKPOINTS}
            for name in self.files.list(self.path):
                self._load_entry(name, config_of, now_ms, points)
            self._are_points_stale = any(each.keys() - self.logs.keys() for each in points.values())
            self._take_cleaned_offsets(points[names.CLEANED_OFFSETS])
            if any(log.persisted_recovery_point > log.log_end_offset for log in self.logs.values()):
                self.persist_points()  # else they would declare durable what is written there later
        except (OSError, CorruptLog) as error:
            self.fail(error)

    def _take_cleaned_offsets(self, found: dict[TopicPartition, int]) -> None:
        """Set the offset up to which each log is clean. Drop the offset of a log that ends before
        it, durably: it would be valid again as soon as the log has grown."""
        known = {each: found[each] for each in found if each in self.logs}
        self.cleaned_offsets = {
            each: offset
            for each, offset in known.items()
            if offset <= self.logs[each].log_end_offset
        }
        if self.cleaned_offsets != known:
            self._write_now(names.CLEANED_OFFSETS)

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint. A damaged one counts as empty: logs are then checked from their
        start."""
        try:
            return read_offsets(self.files, f"{self.path}/{name}")
        except CorruptLog as error:
            self.notes.append(str(error))
            return {}

    def _load_entry(
        self,
        name: str,
        config_of: ConfigOf,
        now_ms: int,
        points: dict[str, dict[TopicPartition, int]],
    ) -> None:
        path = f"{self.path}/{name}"
        if name == names.METADATA_LOG_DIR:
            return
        partition = names.parse_partition_dir(name)
        if partition is None:
            if self.files.stat(path).is_dir:
                self._load_other(name, path, now_ms, points)
            return
        opening = self._opening(partition, now_ms, points)
        try:
            topic_id, torn = self._read_topic_id(path)
            log = PartitionLog.open(
                self.files, path, config_of(partition, topic_id), opening, self._owner
            )
        except NotADirectoryError:
            return
        if torn is not None:
            if self.was_clean and log.log_end_offset:
                raise torn
            self.notes.append(str(torn))
        self.notes += log.notes
        self.logs[partition] = log
        if topic_id is not None:
            self.topic_ids[partition] = topic_id

    def _opening(
        self,
        partition: TopicPartition,
        now_ms: int,
        points: dict[str, dict[TopicPartition, int]],
    ) -> Opening:
        """Return what the checkpoints say about a log."""
        return Opening(
            now_ms,
            is_there=True,
            is_clean=self.was_clean,
            recovery_point=points[names.RECOVERY_POINTS].get(partition, 0),
            log_start_offset=points[names.LOG_STARTS].get(partition, 0),
            high_watermark=points[names.HIGH_WATERMARKS].get(partition, 0),
            cleaned_offset=points[names.CLEANED_OFFSETS].get(partition, 0),
            distrust=partial(self._distrust, partition, points[names.RECOVERY_POINTS]),
        )

    def _distrust(self, partition: TopicPartition, points: dict[TopicPartition, int]) -> None:
        """Drop the recovery point of a log that is being opened, durably. Other logs keep
        theirs."""
        points.pop(partition, None)
        write_offsets(self.files, self._path(names.RECOVERY_POINTS), points)

    def _read_topic_id(self, path: str) -> tuple[Uuid | None, CorruptLog | None]:
        """Read the topic id of a log. A power loss can tear the file of a log that was never
        flushed: return the error then."""
        try:
            return read_partition_metadata(self.files, path), None
        except CorruptLog as error:
            return None, error

    def _load_other(
        self, name: str, path: str, now_ms: int, points: dict[str, dict[TopicPartition, int]]
    ) -> None:
        """Handle a directory that is not a log in service."""
        marked = names.parse_marked_dir(name)
        if marked is None:
            self.notes.append(f"{path} is no log")
        elif marked.mark == names.STRAY_DIR:
            self.notes.append(f"{path} is not in service")
        else:
            partition = names.parse_future_dir(name)
            if partition is None or partition in self.left:
                self._deleted.append((now_ms, path, None))
            else:
                # The points belong to the log, and its copy was not closed cleanly.
                self.left[partition] = Left(path, Opening(now_ms, is_there=True))

    # Creating and deleting logs.

    def create(
        self, partition: TopicPartition, topic_id: Uuid | None, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """Create a log, bound to its topic. Raise KafkaError if the directory is out of service.
        The new directory is durable with the log's first flush. If it is lost before, the
        partition's leader creates it again."""
        self.forget_points()
        self._refuse_failed()
        assert partition not in self.logs
        path = self.home_of(partition)
        opening = Opening(now_ms, is_there=True)
        try:
            if path in self._half_made:
                self.files.remove_tree(path)
            self.files.make_dir(path)
            if topic_id is not None:
                write_partition_metadata(self.files, path, topic_id, sync=False)
            log = PartitionLog.open(self.files, path, config, opening, self._owner)
        except OSError as error:
            if is_shortage(error):
                self._half_made.add(path)
                self._refuse_short(error)
            self.fail(error)
            self._refuse_failed()
        self._half_made.discard(path)
        self.logs[partition] = log
        if topic_id is not None:
            self.topic_ids[partition] = topic_id
        return log

    def delete(self, partition: TopicPartition, unique: bytes, now_ms: int) -> None:
        """Take a log out of service for good. `remove_deleted` frees its space after
        `file.delete.delay.ms`. `unique` is 16 random bytes. The new name is durable with the next
        sync of the directory (`are_names_stale`). After an earlier power loss the log may come back
        as a stray."""
        self._set_aside(partition, unique, names.DELETE_DIR, now_ms)

    def set_aside(self, partition: TopicPartition, unique: bytes) -> None:
        """Take a log out of service that the cluster does not know, and keep its files."""
        self._set_aside(partition, unique, names.STRAY_DIR, None)

    def _set_aside(
        self, partition: TopicPartition, unique: bytes, mark: str, now_ms: int | None
    ) -> None:
        self._refuse_failed()
        log = self.logs[partition]
        path = f"{self.path}/{names.marked_dir_name(partition, unique, mark)}"
        if now_ms is None:
            log.flush()
        log.move(path, sync=False)
        self.are_names_stale = True
        self._let_go(partition)
        if now_ms is None:
            self.sync_names()
            log.abandon()
        else:
            self._deleted.append((now_ms + log.config.file_delete_delay_ms, path, log))

    def _let_go(self, partition: TopicPartition) -> None:
        del self.logs[partition]
        self.departing.discard(partition)
        self.cleaned_offsets.pop(partition, None)
        self.topic_ids.pop(partition, None)
        self._are_points_stale = True
        for checkpoint in self._generations:
            self._generations[checkpoint] += 1

    # Moving logs between directories, for `replication.moves`.

    def home_of(self, partition: TopicPartition) -> str:
        """Return the path of a log in service."""
        return f"{self.path}/{names.partition_dir_name(partition)}"

    def forget_points(self) -> None:
        """Rewrite the checkpoints if they hold points of logs that are gone: after a crash a new
        log of the same name would get them. Raise KafkaError if too many files are open."""
        if not self._are_points_stale or self.failure is not None:
            return
        try:
            self._write_all()
        except OSError as error:
            if is_shortage(error):
                self._refuse_short(error)
            self.fail(error)

    def withdraw(self, partition: TopicPartition) -> None:
        """Cancel a copy: the log does not move here."""
        self.futures.pop(partition, None)
        if self.arriving.pop(partition, None) is not None:
            self._are_points_stale = True

    def depart(self, partition: TopicPartition) -> PartitionLog:
        """Remove a log that is served from another directory from now on, and return it. See
        `bury`."""
        log = self.logs[partition]
        self._let_go(partition)
        return log

    def arrive(self, partition: TopicPartition, topic_id: Uuid, cleaned_offset: int | None) -> None:
        """Put the copy in `futures` into service as a log of this directory."""
        log = self.futures.pop(partition).log
        self.arriving.pop(partition, None)
        self.logs[partition] = log
        self.topic_ids[partition] = topic_id
        if cleaned_offset is not None:
            self.cleaned_offsets[partition] = cleaned_offset

    def bury(self, log: PartitionLog, now_ms: int) -> None:
        """Remove a departed log or a copy after its delay. It has been renamed to be deleted."""
        deadline = now_ms + log.config.file_delete_delay_ms
        self._deleted.append((deadline, log.directory, log))

    @property
    def owner(self) -> Owner:
        """The owner of the logs in this directory."""
        return self._owner

    def sync_names(self) -> None:
        """Make the renames of logs durable. An error takes the directory out of service."""
        try:
            self.files.sync_dir(self.path)
            self.are_names_stale = False
        except OSError as error:
            self.fail(error)

    def bind(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Write the topic id of a log that had none. Durable on return."""
        self._refuse_failed()
        try:
            write_partition_metadata(self.files, self.logs[partition].directory, topic_id)
        except OSError as error:
            self.fail(error)
            self._refuse_failed()
        self.topic_ids[partition] = topic_id

    def remove_deleted(self, now_ms: int) -> int:
        """Remove files of deleted logs and segments whose delay is over. Return how many."""
        removal = self.take_deleted(now_ms)
        try:
            return removal.run()
        except OSError as error:
            self.fail(error)
            return 0

    def take_deleted(self, now_ms: int) -> Removal:
        """Return what `remove_deleted` would remove, for the caller to run in a thread. Pass an
        OSError of it to `fail`. What it does not remove is removed at the next start."""
        removal = Removal(self.files, [], [])
        if self.failure is None:
            later = []
            for each in self._deleted:
                deadline, path, log = each
                if deadline > now_ms or log in self.being_cleaned:
                    later.append(each)
                    continue
                if log is not None:
                    log.abandon()
                removal.trees.append(path)
            self._deleted = later
        for log in self._in_service():
            if log not in self.being_cleaned:
                removal.segments += log.retention.take_deleted(now_ms)
        return removal

    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention to every log, with one checkpoint for all. Return how many segments were
        deleted."""
        expired = self.expire_segments(now_ms)
        if expired:
            try:
                self.persist_points()
            except OSError as error:
                self.fail(error)
        return self.drop_expired(expired, now_ms)

    def expire_segments(self, now_ms: int) -> list[PartitionLog]:
        """The first half of `delete_old_segments`. Return the logs whose start has moved up."""
        expired = []
        for log in self._in_service():
            with suppress(KafkaError):  # a disk error fails the directory; readers get damage
                if log.retention.expire(now_ms):
                    expired.append(log)
        return expired

    def drop_expired(self, expired: Iterable[PartitionLog], now_ms: int) -> int:
        """The second half of `delete_old_segments`, once the log starts are durable. Return how
        many segments were deleted."""
        count = 0
        for log in expired:
            if self.failure is None:
                with suppress(KafkaError):
                    count += log.retention.drop_expired(now_ms)
        return count

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were idle for `producer.id.expiration.ms`. Return how many."""
        return sum(log.producers.expire(now_ms) for log in self._in_service())

    def sizes(self) -> dict[TopicPartition, int]:
        """Return the bytes of each log."""
        return {partition: log.size_bytes for partition, log in self.logs.items()}

    # Points of all logs.

    def persist_points(self) -> None:
        """Make the recovery points and log starts durable. Raise OSError if that fails."""
        recovery_points = self._offsets(names.RECOVERY_POINTS)
        for checkpoint in POINTS:
            self._write_now(checkpoint)
        for each, point in recovery_points.items():
            self._known(each).state.checkpoint_holds(point)

    def write_high_watermarks(self) -> None:
        """Make the high watermarks durable. Raise OSError if that fails."""
        self._write_now(names.HIGH_WATERMARKS)

    def checkpoint(self) -> None:
        """Write all checkpoints. An error takes the directory out of service."""
        if self.failure is None:
            try:
                self._write_all()
            except OSError as error:
                self.fail(error)

    def _write_all(self) -> None:
        self.persist_points()
        self.write_high_watermarks()
        if self.cleaned_offsets or self.files.exists(self._path(names.CLEANED_OFFSETS)):
            self._write_now(names.CLEANED_OFFSETS)
        self._are_points_stale = False

    def begin_checkpoint(self, checkpoints: Iterable[str]) -> CheckpointJob:
        """Begin to write some of the checkpoints, in the steps of `checkpoint_job`."""
        checkpoints = tuple(checkpoints)
        return CheckpointJob(
            self.files,
            self.path,
            {each: self._offsets(each) for each in checkpoints},
            {each: self._generations[each] for each in checkpoints},
        )

    def put_checkpoint(self, job: CheckpointJob) -> bool:
        """Put the written files in place of the old ones, unless newer ones were written meanwhile.
        Return whether it did. Raise OSError if that fails."""
        if any(self._generations[each] != known for each, known in job.generations.items()):
            job.drop()
            return False
        for each, point in job.offsets(names.RECOVERY_POINTS).items():
            self._known(each).state.checkpoint_claims(point)
        job.rename()
        return True

    def end_checkpoint(self, job: CheckpointJob) -> None:
        """Note that the checkpoint is durable. If a newer one was written meanwhile, that one
        counts."""
        generations = self._generations
        if generations[names.RECOVERY_POINTS] == job.generations.get(names.RECOVERY_POINTS):
            for each, point in job.offsets(names.RECOVERY_POINTS).items():
                self._known(each).state.checkpoint_holds(point)

    def _write_now(self, checkpoint: str) -> None:
        self._generations[checkpoint] += 1
        write_offsets(self.files, self._path(checkpoint), self._offsets(checkpoint))

    def _offsets(self, checkpoint: str) -> dict[TopicPartition, int]:
        """Return the contents that a checkpoint must have now."""
        logs = (self.logs | self.arriving if self.arriving else self.logs).items()
        if checkpoint == names.RECOVERY_POINTS:
            return {each: log.recovery_point for each, log in logs}
        if checkpoint == names.HIGH_WATERMARKS:
            return {each: log.high_watermark for each, log in logs}
        if checkpoint == names.CLEANED_OFFSETS:
            return dict(self.cleaned_offsets)
        # Include logs whose first segment begins at the start: segments before it may come back.
        return {each: log.log_start_offset for each, log in logs if log.log_start_offset}

    def _known(self, partition: TopicPartition) -> PartitionLog:
        log = self.logs.get(partition)
        return self.arriving[partition] if log is None else log

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"

    # Failing and closing.

    def fail(self, error: OSError | CorruptLog) -> None:
        """Take the directory out of service for good. Call `on_failure` on the first error."""
        if self.failure is not None:
            return
        self.failure = error
        futures = [each.log for each in self.futures.values() if each.is_open]
        for log in [*self.logs.values(), *futures]:
            log.take_out_of_service(error)
        self.on_failure(self)

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Make everything durable and write the clean shutdown marker. After a failure, only close
        the files."""
        futures = [each.log for each in self.futures.values() if each.is_open]
        for log in [*self.logs.values(), *futures]:
            with suppress(KafkaError):
                log.close()
        if self.failure is None:
            self.sync_names()
        if self.failure is None:
            self.checkpoint()
        if self.failure is None:
            try:
                write_clean_shutdown(self.files, self.path, broker_epoch)
            except OSError as error:
                self.fail(error)
        self._lock.release()

    def release(self) -> None:
        """Release the lock for another process. The files stay as they are."""
        self._lock.release()

    def _in_service(self) -> Iterator[PartitionLog]:
        for log in list(self.logs.values()):
            if self.failure is None:
                yield log

    def _refuse_short(self, error: OSError) -> NoReturn:
        """Reject a request because too many files are open. The disk is not the cause."""
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            advice(error),
            directory=self.path,
            error=str(error),
        ) from error

    def _refuse_failed(self) -> None:
        if self.failure is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, directory=self.path, error=str(self.failure)
            )
