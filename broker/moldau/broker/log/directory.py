"""One log directory: the logs in it, and the files that speak of all of them.

Invariants: nobody else has the directory (`.lock`); the marker of a clean shutdown is gone before
anything is written, and made only after everything is durable; recovery points and log starts on
disk are never ahead of the logs.

An error of the disk takes the directory out of service as a whole and for good: what else fails on
that disk is a guess, and another directory's replicas are not. Its logs refuse from then on.
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
"""The settings of a log that was found, by partition and topic id."""


_CHECKPOINTS: Final = (*POINTS, names.HIGH_WATERMARKS, names.CLEANED_OFFSETS)


@dataclass(slots=True)
class Removal:
    """Files that nobody uses any more."""

    files: Files
    trees: list[str]
    segments: list[Segment]

    def __bool__(self) -> bool:
        return bool(self.trees or self.segments)

    def run(self) -> int:
        """Remove them; how many logs and segments. May run in a thread."""
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
    """Opened by `open`, filled by `load`; in service until `failure` is set or it is closed."""

    def __init__(self, files: Files, path: str, lock: FileLock, meta: MetaProperties | None):
        self.files = files
        self.path = path
        self.meta = meta
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        """Up to where each compacted log is clean; kept by the cleaner."""
        self.failure: OSError | CorruptLog | None = None
        self.on_failure: Callable[[LogDirectory], None] = lambda directory: None
        self.was_clean = False
        self.broker_epoch = NO_BROKER_EPOCH
        """What the last clean shutdown said; -1 after any other end."""
        self.notes: list[str] = []
        """What was found wrong, in words."""
        self.left: dict[TopicPartition, Left] = {}
        """Copies on their way here that an earlier life did not finish."""
        self.futures: dict[TopicPartition, FutureLog] = {}
        """Copies on their way here."""
        self.arriving: dict[TopicPartition, PartitionLog] = {}
        """Those of them whose points count already, because they are about to be logs in here."""
        self.departing: set[TopicPartition] = set()
        """Logs of which a copy is on its way to another directory: they are not compacted."""
        self.being_cleaned: set[PartitionLog] = set()
        """Logs whose segments a thread may be reading: files of theirs stay until it has ended."""
        self.are_names_stale = False
        """A log was renamed, and `sync_dir` was not called since."""
        self._lock = lock
        self._deleted: list[tuple[int, str, PartitionLog | None]] = []
        self._are_points_stale = False
        self._half_made: set[str] = set()
        """Directories of logs that could not be made for want of open files."""
        self._generations = dict.fromkeys(_CHECKPOINTS, 0)
        """How often each checkpoint was written, or begun to be wrong, so far."""
        self._owner = Owner(self.persist_points, self.fail)

    @classmethod
    def open(cls, files: Files, path: str) -> LogDirectory:
        """Take the directory, made when it is missing; ConfigError when another process has it."""
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
        """ZERO_UUID before it was formatted."""
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
                self.persist_points()  # or they would vouch for what is written there from now on
        except (OSError, CorruptLog) as error:
            self.fail(error)

    def _take_cleaned_offsets(self, found: dict[TopicPartition, int]) -> None:
        """How far each log is clean. Where it ends before that, this is forgotten durably: it would
        hold again as soon as the log has grown."""
        known = {each: found[each] for each in found if each in self.logs}
        self.cleaned_offsets = {
            each: offset
            for each, offset in known.items()
            if offset <= self.logs[each].log_end_offset
        }
        if self.cleaned_offsets != known:
            self._write_now(names.CLEANED_OFFSETS)

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint. Without it logs are looked at from their beginnings."""
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
        """What the checkpoints say of a log."""
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
        """A log that is being opened has no recovery point from now on; others keep theirs."""
        points.pop(partition, None)
        write_offsets(self.files, self._path(names.RECOVERY_POINTS), points)

    def _read_topic_id(self, path: str) -> tuple[Uuid | None, CorruptLog | None]:
        """A loss of power can tear the file of a log that was never flushed."""
        try:
            return read_partition_metadata(self.files, path), None
        except CorruptLog as error:
            return None, error

    def _load_other(
        self, name: str, path: str, now_ms: int, points: dict[str, dict[TopicPartition, int]]
    ) -> None:
        """A directory that is no log in service."""
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
                # The points are of the log, and nobody has closed its copy in order.
                self.left[partition] = Left(path, Opening(now_ms, is_there=True))

    # Logs come and go.

    def create(
        self, partition: TopicPartition, topic_id: Uuid | None, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """A new log, bound to its topic; KafkaError when the directory is out of service. That it
        is there is durable with its first flush: whoever leads it makes it anew if it is not."""
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
        """Take a log out of service at once and for good; `remove_deleted` frees its space after
        `file.delete.delay.ms`. `unique` are 16 random bytes. Its new name is durable with the next
        sync of the directory (`are_names_stale`): until then a loss of power may make it a stray.
        """
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

    # Logs move from directory to directory: for `replication.moves`.

    def home_of(self, partition: TopicPartition) -> str:
        """Where a log in service lies."""
        return f"{self.path}/{names.partition_dir_name(partition)}"

    def forget_points(self) -> None:
        """Write checkpoints anew if there are points in them of logs that are gone: a crash could
        give them to a new log of that name. KafkaError when that cannot be now."""
        if not self._are_points_stale or self.failure is not None:
            return
        try:
            self._write_all()
        except OSError as error:
            if is_shortage(error):
                self._refuse_short(error)
            self.fail(error)

    def withdraw(self, partition: TopicPartition) -> None:
        """The log does not arrive after all."""
        self.futures.pop(partition, None)
        if self.arriving.pop(partition, None) is not None:
            self._are_points_stale = True

    def depart(self, partition: TopicPartition) -> PartitionLog:
        """The log is served from another directory from now on; see `bury`."""
        log = self.logs[partition]
        self._let_go(partition)
        return log

    def arrive(self, partition: TopicPartition, topic_id: Uuid, cleaned_offset: int | None) -> None:
        """The copy in `futures` is a log in service, owned by this directory."""
        log = self.futures.pop(partition).log
        self.arriving.pop(partition, None)
        self.logs[partition] = log
        self.topic_ids[partition] = topic_id
        if cleaned_offset is not None:
            self.cleaned_offsets[partition] = cleaned_offset

    def bury(self, log: PartitionLog, now_ms: int) -> None:
        """Remove a log that has departed, or a copy, renamed to be deleted, after its delay."""
        deadline = now_ms + log.config.file_delete_delay_ms
        self._deleted.append((deadline, log.directory, log))

    @property
    def owner(self) -> Owner:
        """Whose the logs in here are."""
        return self._owner

    def sync_names(self) -> None:
        """Make durable that logs were renamed; an error takes the directory out of service."""
        try:
            self.files.sync_dir(self.path)
            self.are_names_stale = False
        except OSError as error:
            self.fail(error)

    def bind(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Say durably which topic a log belongs to that did not know it."""
        self._refuse_failed()
        try:
            write_partition_metadata(self.files, self.logs[partition].directory, topic_id)
        except OSError as error:
            self.fail(error)
            self._refuse_failed()
        self.topic_ids[partition] = topic_id

    def remove_deleted(self, now_ms: int) -> int:
        """Remove files of deleted logs and segments whose delay is over; how many."""
        removal = self.take_deleted(now_ms)
        try:
            return removal.run()
        except OSError as error:
            self.fail(error)
            return 0

    def take_deleted(self, now_ms: int) -> Removal:
        """What `remove_deleted` would remove, for the caller to run in a thread; an OSError of it
        is for `fail`. What it does not get to goes at the next start."""
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
                removal.segments += log.take_deleted(now_ms)
        return removal

    def delete_old_segments(self, now_ms: int) -> int:
        """Retention, for every log, with one checkpoint for all; how many segments went."""
        expired = self.expire_segments(now_ms)
        if expired:
            try:
                self.persist_points()
            except OSError as error:
                self.fail(error)
        return self.drop_expired(expired, now_ms)

    def expire_segments(self, now_ms: int) -> list[PartitionLog]:
        """The first half of that: the logs that begin later now."""
        expired = []
        for log in self._in_service():
            with suppress(KafkaError):  # its failure is the directory's, and readers hear of damage
                if log.expire_segments(now_ms):
                    expired.append(log)
        return expired

    def drop_expired(self, expired: Iterable[PartitionLog], now_ms: int) -> int:
        """The second half, when the log starts are durable."""
        count = 0
        for log in expired:
            if self.failure is None:
                with suppress(KafkaError):
                    count += log.drop_expired(now_ms)
        return count

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were idle for `producer.id.expiration.ms`; how many."""
        return sum(log.producers.expire(now_ms) for log in self._in_service())

    def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of each log."""
        return {partition: log.size_bytes for partition, log in self.logs.items()}

    # Points of all logs.

    def persist_points(self) -> None:
        """Make the recovery points and log starts durable; OSError when that fails."""
        recovery_points = self._offsets(names.RECOVERY_POINTS)
        for checkpoint in POINTS:
            self._write_now(checkpoint)
        for each, point in recovery_points.items():
            log = self._known(each)
            log.persisted_recovery_point = log.claimed_recovery_point = point

    def write_high_watermarks(self) -> None:
        """Make the high watermarks durable; OSError when that fails."""
        self._write_now(names.HIGH_WATERMARKS)

    def checkpoint(self) -> None:
        """All that is kept of all logs; an error takes the directory out of service."""
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
        """The same for some of them, in the steps of `checkpoint_job`."""
        checkpoints = tuple(checkpoints)
        return CheckpointJob(
            self.files,
            self.path,
            {each: self._offsets(each) for each in checkpoints},
            {each: self._generations[each] for each in checkpoints},
        )

    def put_checkpoint(self, job: CheckpointJob) -> bool:
        """Let what was written take its place, unless it was overtaken; OSError when that fails."""
        if any(self._generations[each] != known for each, known in job.generations.items()):
            job.drop()
            return False
        for each, point in job.offsets(names.RECOVERY_POINTS).items():
            log = self._known(each)
            log.claimed_recovery_point = max(log.claimed_recovery_point, point)
        job.rename()
        return True

    def end_checkpoint(self, job: CheckpointJob) -> None:
        """It is durable; what was written meanwhile is newer."""
        generations = self._generations
        if generations[names.RECOVERY_POINTS] == job.generations.get(names.RECOVERY_POINTS):
            for each, point in job.offsets(names.RECOVERY_POINTS).items():
                log = self._known(each)
                log.persisted_recovery_point = log.claimed_recovery_point = point

    def _write_now(self, checkpoint: str) -> None:
        self._generations[checkpoint] += 1
        write_offsets(self.files, self._path(checkpoint), self._offsets(checkpoint))

    def _offsets(self, checkpoint: str) -> dict[TopicPartition, int]:
        """What a checkpoint should say now."""
        logs = (self.logs | self.arriving if self.arriving else self.logs).items()
        if checkpoint == names.RECOVERY_POINTS:
            return {each: log.recovery_point for each, log in logs}
        if checkpoint == names.HIGH_WATERMARKS:
            return {each: log.high_watermark for each, log in logs}
        if checkpoint == names.CLEANED_OFFSETS:
            return dict(self.cleaned_offsets)
        # Also where the first segment begins there: those before it may come back.
        return {each: log.log_start_offset for each, log in logs if log.log_start_offset}

    def _known(self, partition: TopicPartition) -> PartitionLog:
        log = self.logs.get(partition)
        return self.arriving[partition] if log is None else log

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"

    # Ends.

    def fail(self, error: OSError | CorruptLog) -> None:
        """Out of service, for good. Whoever set `on_failure` hears of the first error."""
        if self.failure is not None:
            return
        self.failure = error
        futures = [each.log for each in self.futures.values() if each.is_open]
        for log in [*self.logs.values(), *futures]:
            log.take_out_of_service(error)
        self.on_failure(self)

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Make everything durable and say so; after a failure, only let go."""
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
        """Let another process have the directory; the files stay as they are."""
        self._lock.release()

    def _in_service(self) -> Iterator[PartitionLog]:
        for log in list(self.logs.values()):
            if self.failure is None:
                yield log

    def _refuse_short(self, error: OSError) -> NoReturn:
        """The disk has nothing to do with it."""
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
