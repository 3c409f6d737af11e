"""The records of `__consumer_offsets` for share groups (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import LogKey, LogValue, Struct, field
from moldau.protocol.types import Int8, Int32, Int64, String, Uuid


class ShareGroupMetadataKey(LogKey, type=11, versions="0", flexible="none"):
    """A share group."""

    group_id: String


class ShareGroupMetadataValue(LogValue, type=11, versions="0", flexible="0+"):
    """The group's epoch: it grows with every change that may call for a new assignment."""

    epoch: Int32
    metadata_hash: Int64


class ShareGroupMemberMetadataKey(LogKey, type=10, versions="0", flexible="none"):
    """A member of a group."""

    group_id: String
    member_id: String


class ShareGroupMemberMetadataValue(LogValue, type=10, versions="0", flexible="0+"):
    """The member's identity and what it wants."""

    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


class ShareGroupTargetAssignmentMetadataKey(LogKey, type=12, versions="0", flexible="none"):
    """The target assignment of a group."""

    group_id: String


class ShareGroupTargetAssignmentMetadataValue(LogValue, type=12, versions="0", flexible="0+"):
    """The group epoch that the target assignment was made for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(LogKey, type=13, versions="0", flexible="none"):
    """A member's part of the target assignment."""

    group_id: String
    member_id: String


class TopicPartition(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[Int32]


class ShareGroupTargetAssignmentMemberValue(LogValue, type=13, versions="0", flexible="0+"):
    """The partitions that the member shall read."""

    topic_partitions: list[TopicPartition]


class ShareGroupCurrentMemberAssignmentKey(LogKey, type=14, versions="0", flexible="none"):
    """What a member reads at present."""

    group_id: String
    member_id: String


class TopicPartitions(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[Int32]


class ShareGroupCurrentMemberAssignmentValue(LogValue, type=14, versions="0", flexible="0+"):
    """The member's epoch and its partitions."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]


class ShareGroupStatePartitionMetadataKey(LogKey, type=15, versions="0", flexible="none"):
    """The share partitions of a group."""

    group_id: String


class TopicPartitionsInfo(Struct):
    """One topic and its partitions."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class TopicInfo(Struct):
    """One topic."""

    topic_id: Uuid
    topic_name: String


class ShareGroupStatePartitionMetadataValue(LogValue, type=15, versions="0", flexible="0+"):
    """Which partitions have their state, which are about to, which topics go."""

    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]
