"""Starts, replaces or cancels the move of partitions to other brokers (KIP-455)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, BrokerId, Int16, Int32, String, TopicName


class ReassignablePartition(Struct):
    """One partition and its target replicas."""

    partition_index: Int32
    replicas: list[BrokerId] | None = field(default=None)


class ReassignableTopic(Struct):
    """One topic and its partitions."""

    name: TopicName
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(
    Request, key=45, versions="0-1", flexible="0+", listeners=("broker", "controller")
):
    """The replicas that each partition shall end up with; null cancels its move."""

    timeout_ms: Int32 = field(default=60000)
    # KIP-860
    allow_replication_factor_change: Bool = field(since=1, default=True)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None


class ReassignableTopicResponse(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    """The outcome for each partition; the move itself goes on afterwards."""

    throttle_time_ms: Int32 = field(default=0)
    allow_replication_factor_change: Bool = field(since=1, default=True, ignorable=True)
    error_code: Int16
    error_message: String | None
    responses: list[ReassignableTopicResponse]
