"""DescribeTransactions and ListTransactions of one shard."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from moldau.broker.coordinator.regular_expression import compiled
from moldau.broker.coordinator.transaction.state import TransactionStatus
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import describe_transactions as describing
from moldau.protocol.messages import list_transactions as listing

if TYPE_CHECKING:
    from moldau.broker.coordinator.transaction.transactions import Transactions

NAMES = frozenset(each.shown for each in TransactionStatus)


def describe(transactions: Transactions, transactional_id: str) -> describing.TransactionState:
    """Return what is known of a transactional id. Raise KafkaError if it does not exist."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    known = transactions.get(transactional_id)
    if known is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transactions.unmarked(known)):
        by_topic.setdefault(topic, []).append(partition)
    return describing.TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=known.state.shown,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[describing.TopicData(topic=name, partitions=ids) for name, ids in by_topic.items()],
    )


def listed(
    transactions: Transactions, message: listing.ListTransactionsRequest, now_ms: int
) -> Iterator[listing.TransactionState]:
    """Yield the transactional ids that pass the filters of the request. Raise KafkaError for a
    pattern that is none."""
    states = set(message.state_filters)
    ids: Collection[int] = set(message.producer_id_filters)
    named = message.transactional_id_pattern
    pattern = compiled(named) if named else None
    wall_ms = transactions.services.wall_ms(now_ms)
    for known in transactions:
        if states and known.state.shown not in states:
            continue
        if ids and known.producer_id not in ids:
            continue
        # As in Kafka, an id that never had a transaction counts as older than any.
        if 0 <= message.duration_filter >= wall_ms - known.started_ms:
            continue
        if pattern is not None and not pattern.fullmatch(known.transactional_id):
            continue
        yield listing.TransactionState(
            transactional_id=known.transactional_id,
            producer_id=known.producer_id,
            transaction_state=known.state.shown,
        )
