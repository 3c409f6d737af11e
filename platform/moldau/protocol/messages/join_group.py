"""Enters a group of the classic protocol, or re-enters it in a rebalance.

The coordinator parks the request until every member has joined or its time is up.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Bytes, GroupId, Int16, Int32, String


class JoinGroupRequestProtocol(Struct):
    """An assignor by name, and the subscription bytes meant for it."""

    name: String = field(map_key=True)
    metadata: Bytes


class JoinGroupRequest(Request, key=11, versions="0-9", flexible="6+", listeners=("broker",)):
    """A member offers the assignors it supports, each with its subscription."""

    group_id: GroupId
    session_timeout_ms: Int32
    # version 0 uses the session timeout for both
    rebalance_timeout_ms: Int32 = field(since=1, default=-1, ignorable=True)
    member_id: String
    # KIP-345: static membership
    group_instance_id: String | None = field(since=5, default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    # KIP-800: why the member (re)joins, for the coordinator's log
    reason: String | None = field(since=8, default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member of the generation, as the leader sees it."""

    member_id: String
    group_instance_id: String | None = field(since=5, default=None, ignorable=True)
    metadata: Bytes


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    """The generation that came out; its leader alone sees the members and must assign."""

    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    error_code: Int16
    generation_id: Int32 = field(default=-1)
    # KIP-559
    protocol_type: String | None = field(since=7, default=None, ignorable=True)
    protocol_name: String | None = field(nullable_since=7)
    leader: String
    # KIP-814: the leader came back as a static member; keep the assignment
    skip_assignment: Bool = field(since=9, default=False)
    member_id: String
    members: list[JoinGroupResponseMember]
