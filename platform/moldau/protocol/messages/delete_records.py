"""Moves a partition's log start offset forward, so that older records are gone."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, Int64, TopicName


class DeleteRecordsPartition(Struct):
    """Where to cut one partition."""

    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    """One topic and its partitions."""

    name: TopicName
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+", listeners=("broker",)):
    """For each partition the offset to cut at; -1 means the high watermark."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    """The outcome for one partition."""

    partition_index: Int32 = field(map_key=True)
    low_watermark: Int64
    error_code: Int16


class DeleteRecordsTopicResult(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName = field(map_key=True)
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    """The new low watermark of each partition."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[DeleteRecordsTopicResult]
