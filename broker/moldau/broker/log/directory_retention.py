"""Retention of all logs in a directory, with one checkpoint for all of them.

Invariant: the start of a log is durable before files below it are removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.broker.log.checkpoints import Checkpoints
    from moldau.broker.log.directory_state import DirectoryState
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
