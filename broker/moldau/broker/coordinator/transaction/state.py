"""A transactional id: its producer, the state of its transaction, and the partitions in it.

A transaction ends in two phases. Its decision (PREPARE_COMMIT, PREPARE_ABORT) is a record of the
coordinator's log. When that record is committed, the markers are written to the partitions, again
after every change of the coordinator until all are there. Then a record completes the transaction.

The epoch of a producer is bumped to fence the client that uses an older one: by each
InitProducerId, by an abort that the client did not ask for, and in transaction version 2 (KIP-890)
by the end of every transaction, so that a late request can never reach the next transaction.

Invariants:
- A value of `Transaction` never changes. Each record of the log replaces it by another.
- The last epoch of a producer id, EPOCH_MAX, is never given to a client. It is kept to fence the
  epoch before. A producer whose epoch is exhausted continues with a new id and epoch 0.
- `next_producer_id` is set only while a transaction of version 2 ends that has used up its id.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from moldau.broker.coordinator.outcome import LogRecord
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

NO_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 32_767
NO_TIME: Final = -1
BUMPS_SINCE: Final = 2
"""The transaction version in which the end of a transaction bumps the epoch (KIP-890)."""
FLEXIBLE_SINCE: Final = 1
"""The transaction version in which the records have tagged fields."""


class TransactionStatus(Enum):
    """The states, with their numbers in the log and their names in ListTransactions."""

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"

    def __init__(self, number: int, shown: str) -> None:
        self.number = number
        self.shown = shown


TRANSITIONS: Final[dict[TransactionStatus, frozenset[TransactionStatus]]] = {
    TransactionStatus.EMPTY: frozenset(
        {TransactionStatus.EMPTY, TransactionStatus.ONGOING, TransactionStatus.COMPLETE_ABORT}
    ),
    TransactionStatus.ONGOING: frozenset(
        {
            TransactionStatus.ONGOING,
            TransactionStatus.PREPARE_COMMIT,
            TransactionStatus.PREPARE_ABORT,
        }
    ),
    TransactionStatus.PREPARE_COMMIT: frozenset({TransactionStatus.COMPLETE_COMMIT}),
    TransactionStatus.PREPARE_ABORT: frozenset({TransactionStatus.COMPLETE_ABORT}),
    TransactionStatus.COMPLETE_COMMIT: frozenset(
        {TransactionStatus.EMPTY, TransactionStatus.ONGOING, TransactionStatus.COMPLETE_ABORT}
    ),
    TransactionStatus.COMPLETE_ABORT: frozenset(
        {TransactionStatus.EMPTY, TransactionStatus.ONGOING, TransactionStatus.COMPLETE_ABORT}
    ),
}
"""The states that may follow each state. An abort without any partition completes at once."""

ENDING: Final = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
"""The states in which markers are being written."""
_BY_NUMBER: Final = {each.number: each for each in TransactionStatus}
_COMPLETE: Final = {
    TransactionStatus.PREPARE_COMMIT: TransactionStatus.COMPLETE_COMMIT,
    TransactionStatus.PREPARE_ABORT: TransactionStatus.COMPLETE_ABORT,
}


class TopicPartition(NamedTuple):
    """A partition in a transaction."""

    topic: str
    partition: int


Partitions: TypeAlias = "frozenset[TopicPartition]"
NO_PARTITIONS: Final[Partitions] = frozenset()


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the log says of one transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionStatus = TransactionStatus.EMPTY
    partitions: Partitions = NO_PARTITIONS
    updated_ms: int = NO_TIME
    """Wall time of the last record."""
    started_ms: int = NO_TIME
    """Wall time at which the transaction began."""
    previous_producer_id: int = NO_ID
    """The producer id before the last record."""
    next_producer_id: int = NO_ID
    """The producer id after the end of this transaction, if that is another one."""
    client_version: int = 0
    """The transaction version of the client's last request."""
    last_epoch: int = NO_EPOCH
    """The epoch before the last bump that the client knows of, to recognize a repeated request. Not
    in the log, in Kafka either: after a move of the coordinator such a client is fenced."""

    @property
    def is_exhausted(self) -> bool:
        """Whether no client may get a higher epoch of this producer id."""
        return is_exhausted(self.producer_epoch)

    @property
    def is_ending(self) -> bool:
        """Whether markers are being written."""
        return self.state in ENDING

    def check_settled(self) -> None:
        """Raise CONCURRENT_TRANSACTIONS while markers are being written. Clients ask again.

        Call it before a producer of a client of version 2 is judged. Its answer to the end of a
        transaction has the next epoch, or another id, and the client may use it at once. This value
        has them only when all markers are written (KAFKA-18575).
        """
        if self.is_ending:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def moved(self, state: TransactionStatus, now_ms: int, **fields: Any) -> Transaction:
        """Return the value after a transition. `now_ms` is wall time."""
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        before = self.producer_id
        changed = replace(
            self, state=state, updated_ms=now_ms, previous_producer_id=before, **fields
        )
        assert NO_EPOCH < changed.producer_epoch <= EPOCH_MAX, changed
        return changed

    def completed(self, now_ms: int) -> Transaction:
        """Return the value after all markers are written."""
        producer_id, epoch = self.identity_after_end()
        return self.moved(
            _COMPLETE[self.state],
            now_ms,
            partitions=NO_PARTITIONS,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_ID,
        )

    def identity_after_end(self) -> tuple[int, int]:
        """Return the producer id and epoch with which the client continues after the end of this
        transaction (KAFKA-18660: not those of the markers, if the id is used up)."""
        if self.next_producer_id != NO_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    # The log.

    def record(self, transaction_version: int) -> LogRecord:
        """Return the record that stores this value."""
        key = TransactionLogKey(transactional_id=self.transactional_id)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state.number,
            transaction_partitions=self._stored_partitions(),
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
            client_transaction_version=self.client_version,
        )
        if transaction_version >= FLEXIBLE_SINCE:
            return LogRecord(key, value, 1)
        value.previous_producer_id = value.next_producer_id = NO_ID
        value.client_transaction_version = 0
        return LogRecord(key, value, 0)

    def _stored_partitions(self) -> list[PartitionsSchema] | None:
        if self.state is TransactionStatus.EMPTY:
            return None
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            by_topic.setdefault(topic, []).append(partition)
        return [PartitionsSchema(topic=name, partition_ids=ids) for name, ids in by_topic.items()]

    @classmethod
    def of_value(cls, transactional_id: str, value: TransactionLogValue) -> Transaction | None:
        """Return what a record says; None for the state of an id that is being removed."""
        state = _BY_NUMBER.get(value.transaction_status)
        if state is None:
            return None
        partitions = frozenset(
            TopicPartition(each.topic, partition)
            for each in value.transaction_partitions or ()
            for partition in each.partition_ids
        )
        return cls(
            transactional_id=transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=state,
            partitions=partitions,
            updated_ms=value.transaction_last_update_timestamp_ms,
            started_ms=value.transaction_start_timestamp_ms,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            client_version=value.client_transaction_version,
        )


def is_exhausted(epoch: int) -> bool:
    """Whether an epoch is the last one that a client may have of its producer id."""
    return epoch >= EPOCH_MAX - 1
