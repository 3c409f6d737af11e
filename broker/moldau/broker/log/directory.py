"""One log directory, as the common interface of its parts.

    checkpoints     the points of all its logs, on disk             `Checkpoints`
    partitions      logs created, bound, deleted, set aside         `Partitions`
    copies          logs that move from or to another directory     `Copies`
    removals        files that are removed later                    `Removals`
    retention       old segments of all its logs                    `DirectoryRetention`
    state           the logs, the facts about them, the failure     `DirectoryState`

Invariants: no other process has the directory (`.lock`). The marker of a clean shutdown is removed
before anything is written, and made only after everything is durable. Recovery points and log
starts on disk are never ahead of the logs.

A disk error takes the whole directory out of service for good: it is unknown what else fails on
that disk, and other directories hold replicas of their own. Its logs reject every request from then
on.

The parts share one `DirectoryState`. `LogDirectory` has its facts, and the operations on the
directory as a whole: it is taken, loaded, closed and released.

Retention of all logs in a directory, with one checkpoint for all of them.

Invariant: the start of a log is durable before files below it are removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.broker.log import names
from moldau.broker.log.checkpoints import Checkpoints
from moldau.broker.log.clean_shutdown import NO_BROKER_EPOCH, write_clean_shutdown
from moldau.broker.log.copies import Copies
from moldau.broker.log.directory_state import DirectoryState
from moldau.broker.log.file_pool import NO_POOL, FilePool
from moldau.broker.log.loading import ConfigOf, DirectoryLoader
from moldau.broker.log.log import Owner
from moldau.broker.log.meta_properties import MetaProperties, read_meta_properties
from moldau.broker.log.partitions import Partitions
from moldau.broker.log.removals import Removals
from moldau.errors import ConfigError, CorruptLog
from moldau.errors.codes import KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.runtime.files import FileLock, Files

if TYPE_CHECKING:
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.log.names import TopicPartition


class DirectoryRetention:
    """Deletes the old segments of one directory."""

    def __init__(self, state: DirectoryState, checkpoints: Checkpoints) -> None:
        self._state = state
        self._checkpoints = checkpoints

    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention to every log. Return how many segments were deleted."""
        expired = self.expire(now_ms)
        if expired:
            try:
                self._checkpoints.persist_points()
            except OSError as error:
                self._state.fail(error)
        return self.drop_expired(expired.values(), now_ms)

    def expire(self, now_ms: int) -> dict[TopicPartition, PartitionLog]:
        """Do the first half of `delete_old_segments`. Return the logs whose start has moved up."""
        expired = {}
        for place, log in self._state.logs_in_service():
            with suppress(KafkaError):  # a disk error fails the directory; readers get damage
                if log.retention.expire(now_ms):
                    expired[place] = log
        return expired

    def drop_expired(self, expired: Iterable[PartitionLog], now_ms: int) -> int:
        """Do the second half of `delete_old_segments`, once the log starts are durable. Return how
        many segments were deleted."""
        count = 0
        for log in expired:
            if self._state.failure is None:
                with suppress(KafkaError):
                    count += log.retention.drop_expired(now_ms)
        return count


class LogDirectory:
    """A log directory. `open` locks it, `load` opens its logs. It is in service until `failure` is
    set or it is closed."""

    def __init__(
        self,
        files: Files,
        path: str,
        lock: FileLock,
        meta: MetaProperties | None,
        pool: FilePool = NO_POOL,
    ) -> None:
        state = DirectoryState(files, path)
        self.files = files
        self.path = path
        self.meta = meta
        self.state = state
        self.logs = state.logs
        self.topic_ids = state.topic_ids
        self.cleaned_offsets = state.cleaned_offsets
        self.notes = state.notes
        self.was_clean = False
        self.broker_epoch = NO_BROKER_EPOCH
        """The broker epoch from the last clean shutdown, or -1 if the directory was not closed
        cleanly."""
        self.checkpoints = Checkpoints(state)
        self.owner = Owner(self.checkpoints.persist_points, state.fail, pool, state.room)
        """The owner of the logs in this directory."""
        self.copies = Copies(state, self.checkpoints)
        self.removals = Removals(state)
        self.partitions = Partitions(
            state, self.owner, self.checkpoints, self.copies, self.removals
        )
        self.retention = DirectoryRetention(state, self.checkpoints)
        self._lock = lock

    @classmethod
    def open(cls, files: Files, path: str, pool: FilePool = NO_POOL) -> LogDirectory:
        """Lock the directory, and create it if it is missing. Raise ConfigError if another process
        uses it. `pool` closes the files of logs that are not used; without it they stay open."""
        files.make_dirs(path)
        try:
            lock = files.lock(f"{path}/{names.LOCK}")
        except BlockingIOError as error:
            raise ConfigError("another process uses the directory", directory=path) from error
        try:
            return cls(files, path, lock, read_meta_properties(files, path), pool)
        except (OSError, CorruptLog):
            lock.release()
            raise

    @property
    def directory_id(self) -> Uuid:
        """The directory's id, or ZERO_UUID before it was formatted."""
        meta = self.meta
        return ZERO_UUID if meta is None or meta.directory_id is None else meta.directory_id

    @property
    def failure(self) -> OSError | CorruptLog | None:
        """The error that took the directory out of service; None while it is in service."""
        return self.state.failure

    def load(self, config_of: ConfigOf, now_ms: int) -> None:
        """Open every log in the directory, recovering those that need it."""
        try:
            loading = DirectoryLoader(self, config_of, now_ms)
            self.was_clean, self.broker_epoch = loading.was_clean, loading.broker_epoch
            loading.run()
        except (OSError, CorruptLog) as error:
            self.state.fail(error)

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Make everything durable and write the clean shutdown marker. After a failure, only close
        the files."""
        state = self.state
        for log in state.open_logs():
            with suppress(KafkaError):
                log.close()
        if state.failure is None:
            self.partitions.sync_names()
        if state.failure is None:
            self.checkpoints.write()
        if state.failure is None:
            try:
                write_clean_shutdown(self.files, self.path, broker_epoch)
            except OSError as error:
                state.fail(error)
        self._lock.release()

    def release(self) -> None:
        """Release the lock for another process. The files stay as they are."""
        self._lock.release()
