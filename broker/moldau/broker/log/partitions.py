"""The logs of a directory as its entries: created, bound to a topic, deleted, set aside.

Invariants: a log's directory has its partition's name exactly as long as the log is in service.
A new log has no points in the checkpoints (`Checkpoints.forget_departed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.log import names
from moldau.broker.log.new_log import NewLog
from moldau.broker.log.open_files import is_shortage
from moldau.broker.log.partition_metadata import write_partition_metadata

if TYPE_CHECKING:
    from moldau.broker.log.checkpoints import Checkpoints
    from moldau.broker.log.copies import Copies
    from moldau.broker.log.directory_state import DirectoryState
    from moldau.broker.log.log import Owner, PartitionLog
    from moldau.broker.log.log_config import LogConfig
    from moldau.broker.log.names import TopicPartition
    from moldau.broker.log.removals import Removals
    from moldau.ids import Uuid


class Partitions:
    """Creates and removes the logs of one directory; see the module."""

    def __init__(
        self,
        state: DirectoryState,
        owner: Owner,
        checkpoints: Checkpoints,
        copies: Copies,
        removals: Removals,
    ) -> None:
        self.are_names_stale = False
        """Whether a log was renamed since the last `sync_names`."""
        self.begun_count = 0
        """The number of logs that are being created."""
        self._state = state
        self._owner = owner
        self._checkpoints = checkpoints
        self._copies = copies
        self._removals = removals
        self._half_made: set[str] = set()
        """Directories of logs that could not be created because too many files were open."""

    def create(
        self, partition: TopicPartition, topic_id: Uuid | None, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """Create a log, bound to its topic, at once. Raise KafkaError if the directory is out of
        service."""
        self._checkpoints.forget_departed()
        new = self.begin(partition, topic_id, config, now_ms)
        new.make()
        return self.end(new)

    def begin(
        self, partition: TopicPartition, topic_id: Uuid | None, config: LogConfig, now_ms: int
    ) -> NewLog:
        """Begin to create a log, in the steps of `new_log`. The checkpoints hold no points of
        departed logs: see `Checkpoints.forget_departed`. Raise KafkaError if the directory is out
        of service."""
        state = self._state
        state.require_service()
        assert partition not in state.logs
        assert not self._checkpoints.are_stale
        path = state.home_of(partition)
        self.begun_count += 1
        return NewLog(
            partition,
            topic_id,
            path,
            state.files,
            (config, now_ms),
            is_half_made=path in self._half_made,
        )

    def end(self, new: NewLog) -> PartitionLog:
        """Put a new log into service, which was made. Raise KafkaError if it could not be made, or
        if the directory is out of service."""
        state = self._state
        self.begun_count -= 1
        if new.error is not None and is_shortage(new.error):
            self._half_made.add(new.path)
            state.refuse_short(new.error)
        if new.error is not None:
            state.fail(new.error)
        state.require_service()
        log = new.log
        assert log is not None
        log.enter_service(self._owner)
        self._half_made.discard(new.path)
        state.logs[new.partition] = log
        if new.topic_id is not None:
            state.topic_ids[new.partition] = new.topic_id
        return log

    def bind(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Write the topic id of a log that had none. Durable on return."""
        state = self._state
        state.require_service()
        try:
            write_partition_metadata(state.files, state.logs[partition].directory, topic_id)
        except OSError as error:
            state.fail(error)
            state.require_service()
        state.topic_ids[partition] = topic_id

    def delete(self, partition: TopicPartition, unique: bytes, now_ms: int) -> None:
        """Take a log out of service for good. `Removals` frees its space after
        `file.delete.delay.ms`. `unique` is 16 random bytes. The new name is durable with the next
        sync of the directory (`are_names_stale`). After an earlier power loss the log may come back
        as a stray."""
        self._state.require_service()
        log = self._rename(partition, unique, names.DELETE_DIR)
        self._copies.depart(partition)
        self._removals.bury(log, now_ms)

    def set_aside(self, partition: TopicPartition, unique: bytes) -> None:
        """Take a log out of service that the cluster does not know, and keep its files."""
        self._state.require_service()
        self._state.logs[partition].flush()
        log = self._rename(partition, unique, names.STRAY_DIR)
        self._copies.depart(partition)
        self.sync_names()
        log.abandon()

    def _rename(self, partition: TopicPartition, unique: bytes, mark: str) -> PartitionLog:
        state = self._state
        log = state.logs[partition]
        log.move(state.path_of(names.marked_dir_name(partition, unique, mark)), sync=False)
        self.are_names_stale = True
        return log

    def sync_names(self) -> None:
        """Make the renames of logs durable. An error takes the directory out of service."""
        state = self._state
        try:
            state.files.sync_dir(state.path)
            self.are_names_stale = False
        except OSError as error:
            state.fail(error)
