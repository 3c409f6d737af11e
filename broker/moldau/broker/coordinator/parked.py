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
    from moldau.broker.coordinator.outcome import Answer, Ticket
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


def give(ticket: Ticket, response: Response | KafkaError) -> None:
    """Answer the request of a ticket. A ticket is the function that answers."""
    assert callable(ticket)
    ticket(response)


class Parked(Delayed):
    """The answers of one outcome."""

    __slots__ = ("_answers", "_end_offset", "_on_committed", "_partition")

    def __init__(
        self,
        partition: Partition,
        end_offset: int,
        answers: tuple[Answer, ...],
        on_committed: Callable[[], None],
    ) -> None:
        """`on_committed` is called just before the answers are given."""
        self._partition = partition
        self._end_offset = end_offset
        self._answers = answers
        self._on_committed = on_committed

    def try_complete(self) -> bool:
        """Give the answers if everything is committed, or an error if this node is no longer the
        leader. Returns whether they were given."""
        if not self._partition.is_leader:
            self._refuse(ErrorCode.NOT_COORDINATOR)
            return True
        if self._partition.high_watermark < self._end_offset:
            return False
        self._on_committed()
        answers, self._answers = self._answers, ()
        for ticket, response in answers:
            give(ticket, response)
        return True

    def on_timeout(self) -> None:
        self._refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _refuse(self, code: ErrorCode) -> None:
        answers, self._answers = self._answers, ()
        for ticket, _ in answers:
            give(ticket, KafkaError(code))
