"""What Kafka Streams' own assignor puts in the user data of a subscription.

The broker never reads it; a Streams application needs it to share a classic group with Java's.
"""

from __future__ import annotations

from moldau.protocol.declare import Data, Struct, field
from moldau.protocol.types import Bytes, Int8, Int32, Int64, String, Uuid


class TaskId(Struct):
    """A task, up to version 6."""

    topic_group_id: Int32
    partition: Int32


class PartitionToOffsetSum(Struct):
    """The offset sum of one partition's task, in versions 7 to 9."""

    partition: Int32
    offset_sum: Int64


class TaskOffsetSum(Struct):
    """How far a task's state has come: the sum of its changelog offsets."""

    topic_group_id: Int32
    partition: Int32 = field(since=10, default=0)
    offset_sum: Int64 = field(since=10, default=0)
    named_topology: String | None = field(since=10, default="")
    partition_to_offset_sum: list[PartitionToOffsetSum] = field(until=9, default_factory=list)


class ClientTag(Struct):
    """A tag of the instance, for placing standbys (KIP-708)."""

    key: Bytes
    value: Bytes


class SubscriptionInfoData(Data, versions="1-11", flexible="none"):
    """A Streams instance: what it ran, and how far its state has come."""

    version: Int32
    latest_supported_version: Int32 = field(since=3, default=-1)
    process_id: Uuid
    # from version 7 on task_offset_sums says it all (KIP-441)
    prev_tasks: list[TaskId] = field(until=6, default_factory=list)
    standby_tasks: list[TaskId] = field(until=6, default_factory=list)
    user_end_point: Bytes = field(since=2, default=b"")
    task_offset_sums: list[TaskOffsetSum] = field(since=7, default_factory=list)
    unique_field: Int8 = field(since=8, default=0)
    error_code: Int32 = field(since=9, default=0)
    client_tags: list[ClientTag] = field(since=11, default_factory=list)
