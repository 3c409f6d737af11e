"""All log directories of a broker (JBOD): which directory has each partition, and which have
failed.

Invariants: a partition is in one directory. A new one goes to the directory with the fewest logs,
among those that are in service and not cordoned (KIP-1066). The failure of one directory does not
affect the others. A broker without any directory in service cannot continue; its owner decides what
to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from moldau.broker.log.clean_shutdown import NO_BROKER_EPOCH
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.disk_room import PAUSE_MS
from moldau.broker.log.file_pool import FilePool
from moldau.broker.log.future_log import generation
from moldau.broker.log.group_commit import SYNCS_AT_ONCE
from moldau.broker.log.loading import ConfigOf
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.meta_properties import check_meta_properties
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.open_files import LOG_FILES_MAX, log_files_max
from moldau.errors import ConfigError, CorruptLog, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.runtime.files import Files


class LogDirectories:
    """The directories, in the order of `log.dirs`."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.directories = list(directories)
        self.pool = FilePool()
        """Closes the files of logs that are not used."""
        self.is_short_of_room = False
        """Whether produces are refused in one of the directories."""
        self.is_room_watched = False
        """Whether `watch_room` is called before each produce: a disk is nearly full."""
        self.free_bytes_min = 0
        """The free room below which produces are refused."""
        self._measured_ms = 0
        self.unopened: dict[str, Exception] = {}
        """Directories that could not even be opened, with the errors."""
        self.cordoned: frozenset[Uuid] = frozenset()
        """Directories that take a new log only if it is assigned to them, or if no other is
        left."""

    @classmethod
    def open(
        cls, files: Files, paths: Sequence[str], cluster_id: str, node_id: int
    ) -> LogDirectories:
        """Open all directories that can be opened.

        Raise ConfigError if one is in use, not formatted, or of another cluster or node. Raise
        OSError if none is left.
        """
        opened = cls([])
        opened.limit_files(files)
        error: Exception | None = None
        try:
            for path in paths:
                try:
                    directory = LogDirectory.open(files, path, opened.pool)
                except (OSError, CorruptLog) as failure:
                    opened.unopened[path] = error = without_frames(failure)
                    continue
                opened.directories.append(directory)
                if directory.meta is None:
                    raise ConfigError("the directory is not formatted", directory=path)
                check_meta_properties(directory.meta, cluster_id, node_id, path)
            opened._check_ids()
        except ConfigError:
            opened.release()
            raise
        if not opened.directories and error is not None:
            raise error
        return opened

    def limit_files(self, files: Files) -> None:
        """Keep as many files open as the process's limit, which may have changed, leaves to
        logs."""
        limit = files.open_files_max()
        self.pool.limit = LOG_FILES_MAX if limit is None else log_files_max(limit)

    def measure_room(self, now_ms: int) -> None:
        """Measure the free room on the disks. A disk that cannot say it keeps its last measure."""
        self._measured_ms = now_ms
        for each in self.in_service():
            with suppress(OSError):
                free, total = each.files.free_bytes(each.path), each.files.total_bytes(each.path)
                each.state.room.on_measured(free, total, self.free_bytes_min)
        rooms = [each.state.room for each in self.in_service()]
        self.is_short_of_room = any(each.is_short for each in rooms)
        self.is_room_watched = any(each.is_near for each in rooms)

    def watch_room(self, now_ms: int) -> None:
        """Measure the free room before a produce, if the last measure is too old."""
        if not 0 <= now_ms - self._measured_ms < PAUSE_MS:
            self.measure_room(now_ms)

    def _check_ids(self) -> None:
        seen: dict[Uuid, str] = {}
        for each in self.directories:
            if each.directory_id in seen:
                raise ConfigError(
                    "two directories have one id",
                    directory=each.path,
                    other=seen[each.directory_id],
                )
            seen[each.directory_id] = each.path

    def load(
        self,
        config_of: ConfigOf,
        now_ms: int,
        home_of: Callable[[TopicPartition], Uuid | None] = lambda partition: None,
    ) -> None:
        """Open every log. `home_of` returns the directory of a partition in the metadata.

        A crash can leave a log that was being moved in two directories; see `future_log`. The one
        with the higher mark counts. With equal marks, the one in its home directory counts. The
        other is deleted. Raise ConfigError if neither rule decides.
        """
        seen: dict[TopicPartition, LogDirectory] = {}
        for directory in self.in_service():
            directory.load(config_of, now_ms)
            for partition in list(directory.logs):
                winner = directory
                if partition in seen:
                    winner, loser = _superseding(
                        partition, (seen[partition], directory), home_of(partition)
                    )
                    loser.partitions.delete(partition, now_ms.to_bytes(16, "big"), now_ms)
                seen[partition] = winner

    def in_service(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.failure is None]

    def on_failure(self, heard: Callable[[LogDirectory], None]) -> None:
        """Call `heard` when a directory goes out of service."""
        for directory in self.directories:
            directory.state.on_failure = partial(heard, directory)

    # Logs.

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        """Return the directory of the partition, in service or not."""
        for directory in self.directories:
            if partition in directory.logs:
                return directory
        return None

    def log(self, partition: TopicPartition) -> PartitionLog | None:
        directory = self.directory_of(partition)
        return None if directory is None else directory.logs[partition]

    def logs(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Iterate over all logs in service."""
        for directory in self.in_service():
            yield from directory.logs.items()

    def create(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        config: LogConfig,
        now_ms: int,
        *,
        directory_id: Uuid | None = None,
    ) -> PartitionLog:
        """Create a log, in the directory that `choose` returns."""
        target = self.choose(partition, directory_id)
        return target.partitions.create(partition, topic_id, config, now_ms)

    def choose(self, partition: TopicPartition, directory_id: Uuid | None) -> LogDirectory:
        """Return the directory for a new log: the one with the given id, or else the one with the
        fewest logs. Raise KafkaError if none is in service."""
        found = self.in_service()
        if directory_id is not None:
            found = [each for each in found if each.directory_id == directory_id]
        found = [each for each in found if partition not in each.copies.arriving]
        if not found:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory is in service")
        open_ones = [each for each in found if each.directory_id not in self.cordoned]
        return min(open_ones or found[:1], key=_log_count)

    # Operations on all directories.

    def delete_old_segments(self, now_ms: int) -> int:
        return sum(each.retention.delete_old_segments(now_ms) for each in self.in_service())

    def remove_deleted(self, now_ms: int) -> int:
        return sum(each.removals.run(now_ms) for each in self.in_service())

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were idle for `producer.id.expiration.ms`. Return how many."""
        return sum(
            log.producers.expire(now_ms)
            for each in self.in_service()
            for _, log in each.state.logs_in_service()
        )

    def checkpoint(self) -> None:
        for directory in self.in_service():
            directory.checkpoints.write()

    def closings(self) -> list[Callable[[], None]]:
        """Return functions that close all logs, each a share of them, to be called in threads at
        the same time before `close`. A journal (ext4's) puts syncs that are requested together into
        one commit; one after the other, those of 800 logs took most of a minute."""
        self.pool.limit = None  # files leave the pool in one thread only, and none comes any more
        logs = [log for directory in self.directories for log in directory.state.open_logs()]
        shares = [logs[start::SYNCS_AT_ONCE] for start in range(min(len(logs), SYNCS_AT_ONCE))]
        return [partial(_close_logs, share) for share in shares]

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Close each directory: make everything in it durable, then write its marker."""
        for directory in self.directories:
            directory.close(broker_epoch)

    def release(self) -> None:
        """Release the locks of directories that were not loaded."""
        for directory in self.directories:
            directory.release()


def _log_count(directory: LogDirectory) -> int:
    return len(directory.logs) + directory.partitions.begun_count


def _close_logs(logs: Sequence[PartitionLog]) -> None:
    for log in logs:
        with suppress(KafkaError):
            log.close()


def _superseding(
    partition: TopicPartition, found: tuple[LogDirectory, LogDirectory], home: Uuid | None
) -> tuple[LogDirectory, LogDirectory]:
    """Return the directory whose log of the partition counts, and the other one."""
    first, second = found
    marks = [generation(each.files, each.state.home_of(partition)) for each in found]
    is_first = marks[0] > marks[1]
    if marks[0] == marks[1]:
        is_first = first.directory_id == home
        if not is_first and second.directory_id != home:
            raise ConfigError(
                "a partition is in two directories",
                partition=str(partition),
                directory=second.path,
                other=first.path,
            )
    return (first, second) if is_first else (second, first)
