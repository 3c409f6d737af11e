"""Describes topics page by page, with their eligible leader replicas (KIP-966)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, BrokerId, Int16, Int32, TopicName, Uuid


class TopicRequest(Struct):
    """A topic to describe."""

    name: TopicName


class Cursor(Struct):
    """The first partition of a page."""

    topic_name: TopicName
    partition_index: Int32


class DescribeTopicPartitionsRequest(
    Request, key=75, versions="0", flexible="0+", listeners=("broker",)
):
    """The topics (none means all), how many partitions at most, and where to go on."""

    topics: list[TopicRequest]
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    """One partition."""

    error_code: Int16
    partition_index: Int32
    leader_id: BrokerId
    leader_epoch: Int32 = field(default=-1, ignorable=True)
    replica_nodes: list[BrokerId]
    isr_nodes: list[BrokerId]
    eligible_leader_replicas: list[BrokerId] | None = field(default=None)
    last_known_elr: list[BrokerId] | None = field(default=None)
    offline_replicas: list[BrokerId] = field(ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic, or why it cannot be described."""

    error_code: Int16
    name: TopicName | None = field(map_key=True)
    topic_id: Uuid = field(ignorable=True)
    is_internal: Bool = field(default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition]
    # KIP-430: a bit per operation; the default means "not asked for"
    topic_authorized_operations: Int32 = field(default=-(2**31))


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    """A page of partitions, and where the next page starts."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(default=None)
