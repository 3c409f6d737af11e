"""Logs that move between two directories, from the view of each directory.

    left        a copy that an earlier run did not finish
    futures     a copy that is being made in this directory         of `DirectoryState`
    arriving    a copy that is about to become a log here           of `DirectoryState`
    departing   a log that is being copied to another directory

`replication.moves` carries out a move; `future_log` has its steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from moldau.broker.log.checkpoints import Checkpoints
    from moldau.broker.log.directory_state import DirectoryState
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.log.names import TopicPartition
    from moldau.broker.log.recovery import Opening
    from moldau.ids import Uuid


class LeftDirectory(NamedTuple):
    """A `-future` directory that was found, and the known facts about the log in it."""

    path: str
    opening: Opening


class Copies:
    """The copies from and to one directory; see the module."""

    def __init__(self, state: DirectoryState, checkpoints: Checkpoints) -> None:
        self.left: dict[TopicPartition, LeftDirectory] = {}
        """Copies to this directory that an earlier run did not finish."""
        self.departing: set[TopicPartition] = set()
        """Logs that are being copied to another directory. They are not compacted."""
        self.futures = state.futures
        self.arriving = state.arriving
        self._state = state
        self._checkpoints = checkpoints

    def withdraw(self, partition: TopicPartition) -> None:
        """Cancel a copy: the log does not move here."""
        self.futures.pop(partition, None)
        if self.arriving.pop(partition, None) is not None:
            self._checkpoints.become_stale()

    def depart(self, partition: TopicPartition) -> PartitionLog:
        """Remove a log that is not served from this directory any more, and return it. See
        `Removals.bury`."""
        state = self._state
        log = state.logs.pop(partition)
        self.departing.discard(partition)
        state.cleaned_offsets.pop(partition, None)
        state.topic_ids.pop(partition, None)
        self._checkpoints.on_departure()
        return log

    def arrive(self, partition: TopicPartition, topic_id: Uuid, cleaned_offset: int | None) -> None:
        """Put the copy in `futures` into service as a log of this directory."""
        state = self._state
        log = self.futures.pop(partition).log
        self.arriving.pop(partition, None)
        state.logs[partition] = log
        state.topic_ids[partition] = topic_id
        if cleaned_offset is not None:
            state.cleaned_offsets[partition] = cleaned_offset
