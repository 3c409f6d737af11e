"""Tells which producers a partition's leader keeps state of (KIP-664)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, Int64, ProducerId, String, TopicName


class TopicRequest(Struct):
    """One topic and its partitions."""

    name: TopicName = field(map_key=True)
    partition_indexes: list[Int32]


class DescribeProducersRequest(Request, key=61, versions="0", flexible="0+", listeners=("broker",)):
    """The partitions to look at."""

    topics: list[TopicRequest]


class ProducerState(Struct):
    """One producer: its last write and the transaction that it has open, if any."""

    producer_id: ProducerId
    producer_epoch: Int32
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = field(default=-1)


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    """The producers of each partition."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResponse]
