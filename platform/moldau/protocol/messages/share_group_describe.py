"""Describes share groups (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, GroupId, Int16, Int32, String, TopicName, Uuid


class ShareGroupDescribeRequest(
    Request, key=77, versions="1", flexible="0+", listeners=("broker",)
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
    """What a member reads."""

    topic_partitions: list[TopicPartitions]


class Member(Struct):
    """One member: its identity, what it wants and what it has."""

    member_id: String
    rack_id: String | None = field(default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[TopicName]
    assignment: Assignment


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


class ShareGroupDescribeResponse(Response, key=77, versions="1", flexible="0+"):
    """One entry for each group that was asked for."""

    throttle_time_ms: Int32 = field(default=0)
    groups: list[DescribedGroup]
