"""Tells what a broker keeps in its log directories, and how full they are."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int16, Int32, Int64, String, TopicName


class DescribableLogDirTopic(Struct):
    """One topic and its partitions."""

    topic: TopicName = field(map_key=True)
    partitions: list[Int32]


class DescribeLogDirsRequest(Request, key=35, versions="1-5", flexible="2+", listeners=("broker",)):
    """The partitions to look for; null means all."""

    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    """A replica's size and lag; `is_future_key` marks one that is on the move."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    """One directory and what lies in it."""

    error_code: Int16
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    # KIP-827: -1 where the volume does not tell
    total_bytes: Int64 = field(since=4, default=-1, ignorable=True)
    usable_bytes: Int64 = field(since=4, default=-1, ignorable=True)
    # KIP-1066: takes no new replicas
    is_cordoned: Bool = field(since=5, default=False, ignorable=True)


class DescribeLogDirsResponse(Response, key=35, versions="1-5", flexible="2+"):
    """The directories of this broker."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(since=3, default=0, ignorable=True)
    results: list[DescribeLogDirsResult]
