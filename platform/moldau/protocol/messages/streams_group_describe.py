"""Describes streams groups (KIP-1071). Version 1 is of Kafka 4.4: the topology as a graph of nodes
(KIP-1331), and the name of the assignor (KIP-1357)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.messages.streams_group_topology_description_update import TopologyDescription
from moldau.protocol.types import (
    Bool,
    GroupId,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    TopicName,
    Uint16,
)


class StreamsGroupDescribeRequest(
    Request, key=89, versions="0-1", flexible="0+", listeners=("broker",)
):
    """Names the groups to describe."""

    group_ids: list[GroupId]
    include_authorized_operations: Bool
    include_topology_description: Bool = field(since=1, default=False)


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
    topology_description: TopologyDescription | None = field(since=1, default=None)
    # 0 not requested, 1 not stored, 2 error, 3 available
    topology_description_status: Int8 = field(since=1, default=0)
    assignor_name: String | None = field(since=1, default=None, ignorable=True)


class StreamsGroupDescribeResponse(Response, key=89, versions="0-1", flexible="0+"):
    """One entry for each group that was asked for."""

    throttle_time_ms: Int32 = field(default=0)
    groups: list[DescribedGroup]
