"""Describes classic groups: state, members, and what each member was given."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Bytes, GroupId, Int16, Int32, String


class DescribeGroupsRequest(Request, key=15, versions="0-6", flexible="5+", listeners=("broker",)):
    """Names the groups to describe."""

    groups: list[GroupId]
    include_authorized_operations: Bool = field(since=3, default=False)


class DescribedGroupMember(Struct):
    """A member, its subscription and its assignment as raw bytes."""

    member_id: String
    group_instance_id: String | None = field(since=4, default=None, ignorable=True)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct):
    """One group, or why it cannot be described."""

    error_code: Int16
    # KIP-1043
    error_message: String | None = field(since=6, default=None)
    group_id: GroupId
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    # KIP-430: a bit per operation; the default means "not asked for"
    authorized_operations: Int32 = field(since=3, default=-(2**31))


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    """One entry for each group that was asked for, in the same order."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    groups: list[DescribedGroup]
