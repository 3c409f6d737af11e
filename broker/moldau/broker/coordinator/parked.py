"""Answers that wait until everything below an offset is committed.

Invariant: each answer is given once: when the high watermark reaches the offset, when the wait
times out, or when this node stops leading the partition, whichever comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.replication.purgatory import Delayed
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.coordinator.outcome import LogRecord
    from moldau.broker.decision.parked import Parked
    from moldau.broker.replication.partition import Partition
    from moldau.protocol.declare import Response

OnAnswer: TypeAlias = "Callable[[Response | KafkaError], None]"
"""The type of a ticket in the runtime."""

_BY_APPEND_ERROR: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def as_answer(error: KafkaError) -> KafkaError:
    """The error that clients of a coordinator get for an error of its log."""
    code = _BY_APPEND_ERROR.get(error.code)
    return error if code is None else KafkaError(code)


class Waiting(Delayed):
    """The answers of one outcome in the purgatory, while the partition's log is replicated."""

    __slots__ = ("_on_committed", "_parked", "_partition")

    def __init__(
        self, partition: Partition, parked: Parked[LogRecord], on_committed: Callable[[], None]
    ) -> None:
        """`on_committed` is called just before the answers are given."""
        self._partition = partition
        self._parked = parked
        self._on_committed = on_committed

    def try_complete(self) -> bool:
        """Give the answers if everything is committed, or an error if this node is no longer the
        leader, or leads in another epoch. Returns whether they were given."""
        partition, parked = self._partition, self._parked
        if not partition.is_leader or partition.leader_epoch != parked.leader_epoch:
            parked.refuse(KafkaError(ErrorCode.NOT_COORDINATOR))
            return True
        if not parked.is_committed(partition.leader_epoch, partition.high_watermark):
            return False
        self._on_committed()
        parked.release()
        return True

    def on_timeout(self) -> None:
        self._parked.refuse(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
