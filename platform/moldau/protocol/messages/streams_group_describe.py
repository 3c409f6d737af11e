"""Describes streams groups (KIP-1071)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, GroupId, Int16, Int32, Int64, String, TopicName, Uint16


class StreamsGroupDescribeRequest(
    Request, key=89, versions="0", flexible="0+", listeners=("broker",)
):
    """Names the groups to describe."""

    group_ids: list[GroupId]
    include_authorized_operations: Bool


class KeyValue(Struct):
    """A key and a value."""

    key: String
    value: String


class TopicInfo(Struct):
    """An internal topic that the topology needs."""

    name: TopicName
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


class Subtopology(Struct):
    """A part of the topology that is not connected to the others: the unit of tasks."""

    subtopology_id: String
    source_topics: list[TopicName]
    repartition_sink_topics: list[TopicName]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


class Topology(Struct):
    """The topology that the group runs."""

    epoch: Int32
    subtopologies: list[Subtopology] | None = field(default=None)


class Endpoint(Struct):
    """Where other instances can query this one's state stores."""

    host: String
    port: Uint16


class TaskOffset(Struct):
    """How far one task's state has come."""

    subtopology_id: String
    partition: Int32
    offset: Int64


class TaskIds(Struct):
    """Tasks of one subtopology: one for each partition."""

    subtopology_id: String
    partitions: list[Int32]


class Assignment(Struct):
    """Tasks by their role: active, standby, warming up."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class Member(Struct):
    """One member: its identity, what it runs and what it will run."""

    member_id: String
    member_epoch: Int32
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: Bool


class DescribedGroup(Struct):
    """One group, or why it cannot be described."""

    error_code: Int16
    error_message: String | None = field(default=None)
    group_id: GroupId
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    topology: Topology | None = field(default=None)
    members: list[Member]
    # KIP-430: a bit per operation; the default means "not asked for"
    authorized_operations: Int32 = field(default=-(2**31))


class StreamsGroupDescribeResponse(Response, key=89, versions="0", flexible="0+"):
    """One entry for each group that was asked for."""

    throttle_time_ms: Int32 = field(default=0)
    groups: list[DescribedGroup]
