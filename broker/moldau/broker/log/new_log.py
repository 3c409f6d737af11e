"""A log that is being made: its directory, the id of its topic, and its first segment.

    Partitions.begin    choose the path                                 loop
    make                make the directory and the files                thread, or loop
    Partitions.end      put the log into service, or raise the error    loop

On a busy disk each new name may wait for the file system's journal, so that a thousand logs take
seconds. No other code knows the log before `Partitions.end`.

The new directory is durable with the log's first flush. If it is lost before, the partition's
leader creates it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.partition_metadata import write_partition_metadata
from moldau.broker.log.recovery import Opening
from moldau.errors import without_frames

if TYPE_CHECKING:
    from moldau.broker.log.log_config import LogConfig
    from moldau.broker.log.names import TopicPartition
    from moldau.ids import Uuid
    from moldau.runtime.files import Files


class NewLog:
    """One log to make; see the module."""

    __slots__ = (
        "_config",
        "_files",
        "_is_half_made",
        "_now_ms",
        "error",
        "log",
        "partition",
        "path",
        "topic_id",
    )

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        path: str,
        files: Files,
        opening: tuple[LogConfig, int],
        *,
        is_half_made: bool = False,
    ) -> None:
        """`opening` is the log's settings and the time. `is_half_made`: an earlier attempt has left
        files."""
        self.partition = partition
        self.topic_id = topic_id
        self.path = path
        self.log: PartitionLog | None = None
        """The log, once it is made."""
        self.error: OSError | None = None
        """The reason why it could not be made."""
        self._files = files
        self._config, self._now_ms = opening
        self._is_half_made = is_half_made

    def make(self) -> None:
        """Make the log. Store the error of the disk, if there is one."""
        files, path = self._files, self.path
        try:
            if self._is_half_made:
                files.remove_tree(path)
            files.make_dir(path)
            if self.topic_id is not None:
                write_partition_metadata(files, path, self.topic_id, sync=False)
            log = PartitionLog.open(files, path, self._config, Opening(self._now_ms, is_there=True))
        except OSError as error:
            self.error = without_frames(error)
            return
        log.segments.release_files()
        self.log = log
