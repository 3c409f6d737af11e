"""The partitions of a transaction: AddPartitionsToTxn and AddOffsetsToTxn, and the question whether
a partition is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.coordinator.outcome import Outcome, Ticket, answered
from moldau.broker.coordinator.transaction.state import TransactionStatus
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.transaction.producers import Producer
    from moldau.broker.coordinator.transaction.state import Partitions, Transaction
    from moldau.broker.coordinator.transaction.transactions import Transactions


class JoiningPartitions(NamedTuple):
    """Partitions that are to join, or to be in, the transaction of a producer."""

    transactional_id: str
    producer: Producer
    partitions: Partitions
    client_version: int = 0
    """The transaction version of the client."""


def add_partitions(
    transactions: Transactions, joining: JoiningPartitions, ticket: Ticket, now_ms: int
) -> Outcome:
    """Add partitions to the client's transaction, and begin it if none is open. Without partitions
    nothing changes."""
    known = _of_producer(transactions, joining)
    partitions = joining.partitions
    done = results(partitions, ErrorCode.NONE)
    if not partitions:
        return answered(ticket, done)
    if known.state is TransactionStatus.ONGOING:
        if partitions <= known.partitions:
            return answered(ticket, done)
        started_ms, partitions = known.started_ms, known.partitions | partitions
    else:
        started_ms = transactions.services.wall_ms(now_ms)
    added = known.moved(
        TransactionStatus.ONGOING,
        transactions.services.wall_ms(now_ms),
        partitions=partitions,
        started_ms=started_ms,
        client_version=joining.client_version,
    )
    return transactions.stored(added, ((ticket, done),))


def verify_partitions(
    transactions: Transactions, joining: JoiningPartitions, ticket: Ticket
) -> Outcome:
    """Answer for each partition whether it is in the client's transaction (KIP-890)."""
    known = _of_producer(transactions, joining)
    response = results(joining.partitions, ErrorCode.NONE)
    for topic in response.results_by_topic_v3_and_below:
        for row in topic.results_by_partition:
            if (topic.name, row.partition_index) not in known.partitions:
                row.partition_error_code = ErrorCode.TRANSACTION_ABORTABLE
    return answered(ticket, response)


def _of_producer(transactions: Transactions, joining: JoiningPartitions) -> Transaction:
    """Return the transactional id of this producer, if its transaction is not ending."""
    known, producer = transactions.existing(joining.transactional_id), joining.producer
    known.check_settled()
    if known.producer_id != producer.id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.producer_epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return known


def results(partitions: Partitions, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Return the response with the same code for each partition."""
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(
            AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=code)
        )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(name=name, results_by_partition=rows)
            for name, rows in by_topic.items()
        ],
    )
