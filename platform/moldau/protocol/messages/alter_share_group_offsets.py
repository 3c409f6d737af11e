"""Moves the start offsets of a share group that has no members (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, Int64, String, TopicName, Uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    """The new start of one partition."""

    partition_index: Int32
    start_offset: Int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    """One topic and its partitions."""

    topic_name: TopicName = field(map_key=True)
    partitions: list[AlterShareGroupOffsetsRequestPartition]


class AlterShareGroupOffsetsRequest(
    Request, key=91, versions="0", flexible="0+", listeners=("broker",)
):
    """The group and its new start offsets."""

    group_id: GroupId
    topics: list[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsResponsePartition(Struct):
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    """One topic of the answer and its partitions."""

    topic_name: TopicName = field(map_key=True)
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    """An error code for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic]
