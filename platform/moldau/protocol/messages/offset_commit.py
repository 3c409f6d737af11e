"""Stores how far a group has read; the coordinator keeps it in `__consumer_offsets`."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, Int64, String, TopicName, Uuid


class OffsetCommitRequestPartition(Struct):
    """The offset to resume from in one partition, and the user's note to it."""

    partition_index: Int32
    committed_offset: Int64
    # KIP-320: -1 where the consumer does not know it
    committed_leader_epoch: Int32 = field(since=6, default=-1, ignorable=True)
    committed_metadata: String | None


class OffsetCommitRequestTopic(Struct):
    """One topic and its partitions."""

    # KIP-516: from version 10 on the topic goes by its id
    name: TopicName = field(until=9, default="", ignorable=True)
    # KIP-848
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Request, key=8, versions="2-10", flexible="8+", listeners=("broker",)):
    """Commits offsets for a member of a group, or for a group without members."""

    group_id: GroupId
    # KIP-848: the member's epoch where the group speaks the new protocol
    generation_id_or_member_epoch: Int32 = field(default=-1, ignorable=True)
    member_id: String = field(ignorable=True)
    # KIP-345: static membership
    group_instance_id: String | None = field(since=7, default=None)
    # KIP-211 made retention the broker's business
    retention_time_ms: Int64 = field(until=4, default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


class OffsetCommitResponseTopic(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Response, key=8, versions="2-10", flexible="8+"):
    """Says for each partition whether its offset was stored."""

    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]
