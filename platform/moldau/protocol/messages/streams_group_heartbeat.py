"""Joins, keeps up and leaves a streams group (KIP-1071). Version 1 is of Kafka 4.4.

A field that is null has not changed since the member last sent it; the topology is sent on
joining.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
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


class CopartitionGroup(Struct):
    """Topics of a subtopology that must have equally many partitions, by index."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


class Subtopology(Struct):
    """A part of the topology that is not connected to the others: the unit of tasks."""

    subtopology_id: String
    source_topics: list[TopicName]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[TopicName]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class Topology(Struct):
    """The whole topology, with an epoch to tell versions apart."""

    epoch: Int32
    subtopologies: list[Subtopology]


class TaskIds(Struct):
    """Tasks of one subtopology: one for each partition."""

    subtopology_id: String
    partitions: list[Int32]


class Endpoint(Struct):
    """Where other instances can query this one's state stores."""

    host: String
    port: Uint16


class TaskOffset(Struct):
    """How far one task's state has come."""

    subtopology_id: String
    partition: Int32
    offset: Int64


class StreamsGroupHeartbeatRequest(
    Request, key=88, versions="0-1", flexible="0+", listeners=("broker",)
):
    """What a Streams process runs, owns and has caught up with."""

    group_id: GroupId
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology: Topology | None = field(default=None)
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    process_id: String | None = field(default=None)
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue] | None = field(default=None)
    task_offsets: list[TaskOffset] | None = field(default=None)
    task_end_offsets: list[TaskOffset] | None = field(default=None)
    shutdown_application: Bool = field(default=False)


class Status(Struct):
    """A note about the group: missing source topics, wrong partition counts and the like."""

    status_code: Int8
    status_detail: String


class TopicPartition(Struct):
    """One topic, by name, and its partitions."""

    topic: TopicName
    partitions: list[Int32]


class EndpointToPartitions(Struct):
    """An instance's address and the partitions whose state it holds."""

    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0-1", flexible="0+"):
    """The member's epoch, its tasks when they changed, and notes on what is wrong."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag_legacy: Int32 = field(until=0, default=0)
    task_offset_interval_ms: Int32
    acceptable_recovery_lag: Int64 = field(since=1, default=-1, ignorable=True)
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    topology_description_required: Bool = field(since=1, default=False)
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(default=None)
