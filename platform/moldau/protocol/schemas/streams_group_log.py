"""The records of `__consumer_offsets` for streams groups (KIP-1071)."""

from __future__ import annotations

from moldau.protocol.declare import LogKey, LogValue, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, Int64, String, Uint16


class StreamsGroupMetadataKey(LogKey, type=17, versions="0", flexible="none"):
    """A streams group."""

    group_id: String


class LastAssignmentConfig(Struct):
    """A setting that the last assignment was made with."""

    key: String
    value: String


class StreamsGroupMetadataValue(LogValue, type=17, versions="0", flexible="0+"):
    """The group's epoch, and which topology it was validated with."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = field(tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(tag=1, default_factory=list)
    stored_description_topology_epoch: Int32 = field(tag=2, default=-1)
    failed_description_topology_epoch: Int32 = field(tag=3, default=-1)


class StreamsGroupMemberMetadataKey(LogKey, type=19, versions="0", flexible="none"):
    """A member of a group."""

    group_id: String
    member_id: String


class Endpoint(Struct):
    """Where other instances can query this one's state stores."""

    host: String
    port: Uint16


class KeyValue(Struct):
    """A tag of the member."""

    key: String
    value: String


class StreamsGroupMemberMetadataValue(LogValue, type=19, versions="0", flexible="0+"):
    """The member's identity: its process, topology and tags."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]


class StreamsGroupTargetAssignmentMetadataKey(LogKey, type=20, versions="0", flexible="none"):
    """The target assignment of a group."""

    group_id: String


class StreamsGroupTargetAssignmentMetadataValue(LogValue, type=20, versions="0", flexible="0+"):
    """The group epoch that the target assignment was made for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(LogKey, type=21, versions="0", flexible="none"):
    """A member's part of the target assignment."""

    group_id: String
    member_id: String


class TaskIds(Struct):
    """Tasks of one subtopology: one for each partition."""

    subtopology_id: String
    partitions: list[Int32]


class StreamsGroupTargetAssignmentMemberValue(LogValue, type=21, versions="0", flexible="0+"):
    """The tasks that the member shall come to own, by their role."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class StreamsGroupCurrentMemberAssignmentKey(LogKey, type=22, versions="0", flexible="none"):
    """Where a member stands on the way to its target."""

    group_id: String
    member_id: String


class CurrentTaskIds(Struct, schema_name="TaskIds"):
    """Tasks of one subtopology, with the epochs they came in."""

    subtopology_id: String
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(tag=0, default_factory=list)


class StreamsGroupCurrentMemberAssignmentValue(LogValue, type=22, versions="0", flexible="0+"):
    """The tasks that the member owns, and those it still has to give up."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[CurrentTaskIds]
    standby_tasks: list[CurrentTaskIds]
    warmup_tasks: list[CurrentTaskIds]
    active_tasks_pending_revocation: list[CurrentTaskIds]
    standby_tasks_pending_revocation: list[CurrentTaskIds]
    warmup_tasks_pending_revocation: list[CurrentTaskIds]


class StreamsGroupTopologyKey(LogKey, type=23, versions="0", flexible="none"):
    """The topology of a group."""

    group_id: String


class TopicConfig(Struct):
    """A setting of an internal topic."""

    key: String
    value: String


class TopicInfo(Struct):
    """An internal topic that the topology needs."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[TopicConfig]


class CopartitionGroup(Struct):
    """Topics of a subtopology that must have equally many partitions, by index."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


class Subtopology(Struct):
    """A part of the topology that is not connected to the others: the unit of tasks."""

    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class StreamsGroupTopologyValue(LogValue, type=23, versions="0", flexible="0+"):
    """What the group runs, as its first member sent it."""

    epoch: Int32
    subtopologies: list[Subtopology]
