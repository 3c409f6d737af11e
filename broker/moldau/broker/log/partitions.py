"""The logs of a directory as its entries: created, bound to a topic, deleted, set aside.

Invariants: a log's directory has its partition's name exactly as long as the log is in service.
A new log has no points in the checkpoints (`Checkpoints.forget_departed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.log import names
from moldau.broker.log.log import Owner, PartitionLog
from moldau.broker.log.open_files import is_shortage
from moldau.broker.log.partition_metadata import write_partition_metadata
from moldau.broker.log.recovery import Opening

if TYPE_CHECKING:
    from moldau.broker.log.checkpoints import Checkpoints
    from moldau.broker.log.copies import Copies
    from moldau.broker.log.directory_state import DirectoryState
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
        """Create a log, bound to its topic. Raise KafkaError if the directory is out of service.
        The new directory is durable with the log's first flush. If it is lost before, the
        partition's leader creates it again."""
        state = self._state
        self._checkpoints.forget_departed()
        state.require_service()
        assert partition not in state.logs
        path = state.home_of(partition)
        opening = Opening(now_ms, is_there=True)
        try:
            if path in self._half_made:
                state.files.remove_tree(path)
            state.files.make_dir(path)
            if topic_id is not None:
                write_partition_metadata(state.files, path, topic_id, sync=False)
            log = PartitionLog.open(state.files, path, config, opening, self._owner)
        except OSError as error:
            if is_shortage(error):
                self._half_made.add(path)
                state.refuse_short(error)
            state.fail(error)
            state.require_service()
        self._half_made.discard(path)
        state.logs[partition] = log
        if topic_id is not None:
            state.topic_ids[partition] = topic_id
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
