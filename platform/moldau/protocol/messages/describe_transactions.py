"""Describes transactions by their transactional ids (KIP-664)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import (
    Int16,
    Int32,
    Int64,
    ProducerId,
    String,
    TopicName,
    TransactionalId,
)


class DescribeTransactionsRequest(
    Request, key=65, versions="0", flexible="0+", listeners=("broker",)
):
    """The transactional ids."""

    transactional_ids: list[TransactionalId]


class TopicData(Struct):
    """One topic and the partitions that are in the transaction."""

    topic: TopicName = field(map_key=True)
    partitions: list[Int32]


class TransactionState(Struct):
    """One transaction, or why it cannot be described."""

    error_code: Int16
    transactional_id: TransactionalId
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: ProducerId
    producer_epoch: Int16
    topics: list[TopicData]


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    """One entry for each id."""

    throttle_time_ms: Int32 = field(default=0)
    transaction_states: list[TransactionState]
