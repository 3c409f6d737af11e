"""Appends record batches to partitions; the leader answers when `acks` is satisfied.

The record bytes pass through untouched: a broker validates a batch, it never rebuilds one.
"""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import (
    BrokerId,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    TopicName,
    TransactionalId,
    Uuid,
)


class PartitionProduceData(Struct):
    """The batches for one partition: record batches of magic 2, back to back."""

    index: Int32
    records: Records | None


class TopicProduceData(Struct):
    """One topic of the request and its partitions."""

    # KIP-516: from version 13 on the topic goes by its id
    name: TopicName = field(until=12, default="", ignorable=True, map_key=True)
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True, map_key=True)
    partition_data: list[PartitionProduceData]


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+", listeners=("broker",)):
    """Batches for partitions that one broker leads; with acks=0 there is no answer at all."""

    # KIP-890: from version 12 on the first produce adds the partition to the transaction
    transactional_id: TransactionalId | None = field(default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    """One record that was refused, by its index in the batch, and why."""

    batch_index: Int32
    batch_index_error_message: String | None = field(default=None)


class LeaderIdAndEpoch(Struct):
    """The partition's leader now, for a producer that asked another broker."""

    leader_id: BrokerId = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


class PartitionProduceResponse(Struct):
    """The outcome for one partition."""

    index: Int32
    error_code: Int16
    base_offset: Int64
    # -1 unless the topic stamps records with the time of the append
    log_append_time_ms: Int64 = field(default=-1, ignorable=True)
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)
    # KIP-467: says which records of the batch were bad
    record_errors: list[BatchIndexAndErrorMessage] = field(
        since=8, default_factory=list, ignorable=True
    )
    error_message: String | None = field(since=8, default=None, ignorable=True)
    # KIP-951: saves the client a Metadata round trip
    current_leader: LeaderIdAndEpoch = field(since=10, tag=0, default_factory=LeaderIdAndEpoch)


class TopicProduceResponse(Struct):
    """One topic of the answer and its partitions."""

    # KIP-516: from version 13 on the topic goes by its id
    name: TopicName = field(until=12, default="", ignorable=True, map_key=True)
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True, map_key=True)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    """The address of a broker that `current_leader` names."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Int32
    rack: String | None = field(default=None)


class ProduceResponse(Response, key=0, versions="3-13", flexible="9+"):
    """Where each batch landed, or why it did not, partition by partition."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(since=10, tag=0, default_factory=list)
