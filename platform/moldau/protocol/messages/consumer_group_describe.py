"""Describes groups of the consumer group protocol (KIP-848)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, GroupId, Int8, Int16, Int32, String, TopicName, Uuid


class ConsumerGroupDescribeRequest(
    Request, key=69, versions="0-1", flexible="0+", listeners=("broker",)
):
    """Names the groups to describe."""

    group_ids: list[GroupId]
    include_authorized_operations: Bool


class TopicPartitions(Struct):
    """One topic and its partitions."""

    topic_id: Uuid
    topic_name: TopicName
    partitions: list[Int32]


class Assignment(Struct):
    """What a member owns, or shall own."""

    topic_partitions: list[TopicPartitions]


class Member(Struct):
    """One member: its identity, what it wants, what it has and what it will get."""

    member_id: String
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[TopicName]
    subscribed_topic_regex: String | None = field(default=None)
    assignment: Assignment
    target_assignment: Assignment
    # KIP-1099: 0 classic, 1 consumer, -1 not known
    member_type: Int8 = field(since=1, default=-1, ignorable=True)


class DescribedGroup(Struct):
    """One group, or why it cannot be described."""

    error_code: Int16
    error_message: String | None = field(default=None)
    group_id: GroupId
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    # KIP-430: a bit per operation; the default means "not asked for"
    authorized_operations: Int32 = field(default=-(2**31))


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    """One entry for each group that was asked for."""

    throttle_time_ms: Int32 = field(default=0)
    groups: list[DescribedGroup]
