"""The records of `__consumer_offsets` for consumer groups (KIP-848).

The group, its members, the target assignment and what each member has reached of it are records
of their own, so that a change writes only what it changes.
"""

from __future__ import annotations

from moldau.protocol.declare import LogKey, LogValue, Struct, field
from moldau.protocol.types import Bytes, Int8, Int32, Int64, String, Uuid


class ConsumerGroupMetadataKey(LogKey, type=3, versions="0", flexible="none"):
    """A consumer group."""

    group_id: String


class ConsumerGroupMetadataValue(LogValue, type=3, versions="0", flexible="0+"):
    """The group's epoch: it grows with every change that may call for a new assignment."""

    epoch: Int32
    # KIP-1101: 0 where there is none
    metadata_hash: Int64 = field(tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(LogKey, type=4, versions="0", flexible="none"):
    """The topics of a group as they once were."""

    group_id: String


class PartitionMetadata(Struct):
    """One partition and the racks of its replicas."""

    partition: Int32
    racks: list[String]


class TopicMetadata(Struct):
    """One topic."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata]


class ConsumerGroupPartitionMetadataValue(LogValue, type=4, versions="0", flexible="0+"):
    """Topics and their partitions; KIP-1101 put a hash in its place."""

    topics: list[TopicMetadata]


class ConsumerGroupMemberMetadataKey(LogKey, type=5, versions="0", flexible="none"):
    """A member of a group."""

    group_id: String
    member_id: String


class ClassicProtocol(Struct):
    """An assignor that the member supports, with its subscription."""

    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    """What a member needs that still speaks the classic protocol."""

    session_timeout_ms: Int32 = field(default=0)
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


class ConsumerGroupMemberMetadataValue(LogValue, type=5, versions="0", flexible="0+"):
    """The member's identity and what it wants."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = field(
        tag=0, default_factory=ClassicMemberMetadata
    )


class ConsumerGroupTargetAssignmentMetadataKey(LogKey, type=6, versions="0", flexible="none"):
    """The target assignment of a group."""

    group_id: String


class ConsumerGroupTargetAssignmentMetadataValue(LogValue, type=6, versions="0", flexible="0+"):
    """The group epoch that the target assignment was made for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(LogKey, type=7, versions="0", flexible="none"):
    """A member's part of the target assignment."""

    group_id: String
    member_id: String


class TopicPartition(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupTargetAssignmentMemberValue(LogValue, type=7, versions="0", flexible="0+"):
    """The partitions that the member shall come to own."""

    topic_partitions: list[TopicPartition]


class ConsumerGroupCurrentMemberAssignmentKey(LogKey, type=8, versions="0", flexible="none"):
    """Where a member stands on the way to its target."""

    group_id: String
    member_id: String


class TopicPartitions(Struct):
    """One topic, by id, and its partitions, with the epochs they came in."""

    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(tag=0, default_factory=list)


class ConsumerGroupCurrentMemberAssignmentValue(LogValue, type=8, versions="0", flexible="0+"):
    """What the member owns, and what it still has to give up."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


class ConsumerGroupRegularExpressionKey(LogKey, type=16, versions="0", flexible="none"):
    """A pattern that members of a group subscribe to."""

    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(LogValue, type=16, versions="0", flexible="0+"):
    """The topics that the pattern matched, and at which metadata version."""

    topics: list[String]
    version: Int64
    timestamp: Int64
