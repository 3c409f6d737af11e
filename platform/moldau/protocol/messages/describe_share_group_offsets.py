"""Tells where share groups stand in their partitions (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, Int64, String, TopicName, Uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """One topic and its partitions."""

    topic_name: TopicName
    partitions: list[Int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """One group and what to look at."""

    group_id: GroupId
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


class DescribeShareGroupOffsetsRequest(
    Request, key=90, versions="0-1", flexible="0+", listeners=("broker",)
):
    """The groups, and which of their partitions (null means all)."""

    groups: list[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """Where the group stands in one partition."""

    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    # KIP-1226: -1 where not known
    lag: Int64 = field(since=1, default=-1, ignorable=True)
    error_code: Int16
    error_message: String | None = field(default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """One topic of the answer and its partitions."""

    topic_name: TopicName
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """One group of the answer."""

    group_id: GroupId
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: String | None = field(default=None)


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    """The share-partition start offset of each partition."""

    throttle_time_ms: Int32 = field(default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup]
