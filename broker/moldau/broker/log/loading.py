"""Opening the logs of a directory at start.

Every entry is one of: a log in service, a log that was renamed to be deleted, a stray that is kept,
a copy that an earlier run did not finish, a file, or an entry of another program. The checkpoints
hold the offset from which each log must be checked.

Invariant: the marker of a clean shutdown is removed before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.log import names
from moldau.broker.log.checkpoint import write_offsets
from moldau.broker.log.clean_shutdown import NO_BROKER_EPOCH, take_clean_shutdown
from moldau.broker.log.copies import LeftDirectory
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.partition_metadata import read_partition_metadata
from moldau.broker.log.recovery import Opening
from moldau.errors import CorruptLog, without_frames
from moldau.ids import Uuid

if TYPE_CHECKING:
    from moldau.broker.log.directory import LogDirectory

ConfigOf: TypeAlias = Callable[[TopicPartition, Uuid | None], LogConfig]
"""Returns the settings of a log that was found, by partition and topic id."""


class DirectoryLoader:
    """One loading of one directory."""

    def __init__(self, directory: LogDirectory, config_of: ConfigOf, now_ms: int) -> None:
        self._directory = directory
        self._state = directory.state
        self._config_of = config_of
        self._now_ms = now_ms
        epoch = take_clean_shutdown(self._state.files, self._state.path)
        self.was_clean = epoch is not None
        self.broker_epoch = NO_BROKER_EPOCH if epoch is None else epoch
        self._points = directory.checkpoints.read()

    def run(self) -> None:
        """Open every log, recovering those that need it. Raise OSError or CorruptLog if one cannot
        be opened."""
        for name in self._state.files.list(self._state.path):
            self._load(name)
        self._directory.checkpoints.adopt(self._points)

    def _load(self, name: str) -> None:
        """Open or register one entry of the directory."""
        state = self._state
        path = state.path_of(name)
        if name in (names.METADATA_LOG_DIR, names.REMOTE_CACHE_DIR):
            return
        partition = names.parse_partition_dir(name)
        if partition is None:
            if state.files.stat(path).is_dir:
                self._load_other(name, path)
            return
        try:
            topic_id, torn = self._read_topic_id(path)
            log = PartitionLog.open(
                state.files,
                path,
                self._config_of(partition, topic_id),
                self._opening(partition),
                self._directory.owner,
            )
        except NotADirectoryError:
            return
        if torn is not None:
            if self.was_clean and log.log_end_offset:
                raise torn
            state.notes.append(str(torn))
        state.notes += log.notes
        state.logs[partition] = log
        if topic_id is not None:
            state.topic_ids[partition] = topic_id

    def _load_other(self, name: str, path: str) -> None:
        """Register a directory that is not a log in service."""
        notes, left = self._state.notes, self._directory.copies.left
        marked = names.parse_marked_dir(name)
        if marked is None:
            notes.append(f"{path} is no log")
        elif marked.mark == names.STRAY_DIR:
            notes.append(f"{path} is not in service")
        else:
            partition = names.parse_future_dir(name)
            if partition is None or partition in left:
                self._directory.removals.add(path, self._now_ms)
            else:
                # The points belong to the log, and its copy was not closed cleanly.
                left[partition] = LeftDirectory(path, Opening(self._now_ms, is_there=True))

    def _opening(self, partition: TopicPartition) -> Opening:
        """Return the facts about a log from the checkpoints."""
        points = self._points
        return Opening(
            self._now_ms,
            is_there=True,
            is_clean=self.was_clean,
            recovery_point=points[names.RECOVERY_POINTS].get(partition, 0),
            log_start_offset=points[names.LOG_STARTS].get(partition, 0),
            local_log_start_offset=points[names.LOCAL_STARTS].get(partition, 0),
            high_watermark=points[names.HIGH_WATERMARKS].get(partition, 0),
            cleaned_offset=points[names.CLEANED_OFFSETS].get(partition, 0),
            distrust=partial(self._distrust, partition),
        )

    def _distrust(self, partition: TopicPartition) -> None:
        """Drop the recovery point of a log that is being opened, durably. Other logs keep
        theirs."""
        state, points = self._state, self._points[names.RECOVERY_POINTS]
        points.pop(partition, None)
        write_offsets(state.files, state.path_of(names.RECOVERY_POINTS), points)

    def _read_topic_id(self, path: str) -> tuple[Uuid | None, CorruptLog | None]:
        """Read the topic id of a log. A power loss can damage the file of a log that was never
        flushed: return the error then."""
        try:
            return read_partition_metadata(self._state.files, path), None
        except CorruptLog as error:
            return None, without_frames(error)
