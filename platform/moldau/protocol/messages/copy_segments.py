"""Asks leaders to copy what tiered partitions have to remote storage, at once (moldau's own API,
which only moldau's clients are told of: no request of Kafka's ends an active segment)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, Int64, String, TopicName


class CopySegmentsPartition(Struct):
    """One partition."""

    partition_index: Int32


class CopySegmentsTopic(Struct):
    """A topic and its partitions."""

    name: TopicName
    partitions: list[CopySegmentsPartition]


class CopySegmentsRequest(Request, key=20003, versions="0", flexible="0+", listeners=("broker",)):
    """The partitions. Each goes on in a new segment, and copies of what is before it begin without
    the lag that the topic has. The answer does not wait for them."""

    topics: list[CopySegmentsTopic]


class CopySegmentsPartitionResult(Struct):
    """The outcome for one partition: it is copied when all below `end_offset` is."""

    partition_index: Int32
    end_offset: Int64
    error_code: Int16
    error_message: String | None = field(default=None)


class CopySegmentsTopicResult(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName
    partitions: list[CopySegmentsPartitionResult]


class CopySegmentsResponse(Response, key=20003, versions="0", flexible="0+"):
    """Which offsets will be copied."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[CopySegmentsTopicResult]
