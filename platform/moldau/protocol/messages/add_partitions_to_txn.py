"""Adds partitions to an ongoing transaction before it writes to them.

Versions 0-3 come from a producer and hold one transaction; from version 4 on (KIP-890) brokers
ask about many at once, mostly only to verify.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import (
    Bool,
    Int16,
    Int32,
    ProducerId,
    TopicName,
    TransactionalId,
)


class AddPartitionsToTxnTopic(Struct):
    """One topic and the partitions to add."""

    name: TopicName = field(map_key=True)
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Struct):
    """One transaction and its partitions."""

    transactional_id: TransactionalId = field(map_key=True)
    producer_id: ProducerId
    producer_epoch: Int16
    # only check that the partitions are in it, add nothing
    verify_only: Bool = field(default=False)
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(
    Request, key=24, versions="0-5", flexible="3+", listeners=("broker",)
):
    """The transactions and the partitions that they want to write to."""

    transactions: list[AddPartitionsToTxnTransaction] = field(since=4, default_factory=list)
    v3_and_below_transactional_id: TransactionalId = field(until=3, default="")
    v3_and_below_producer_id: ProducerId = field(until=3, default=0)
    v3_and_below_producer_epoch: Int16 = field(until=3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(until=3, default_factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    """The outcome for one partition."""

    partition_index: Int32 = field(map_key=True)
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName = field(map_key=True)
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    """One transaction of the answer."""

    transactional_id: TransactionalId = field(map_key=True)
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    """An error code for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(since=4, default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(since=4, default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        until=3, default_factory=list
    )
