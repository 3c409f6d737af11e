"""Hands out the assignment of a classic group's generation.

The leader brings it, all other members wait for it here.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bytes, GroupId, Int16, Int32, String


class SyncGroupRequestAssignment(Struct):
    """One member's share, as the leader worked it out."""

    member_id: String
    assignment: Bytes


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+", listeners=("broker",)):
    """A member asks for its share; only the leader's request carries assignments."""

    group_id: GroupId
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(since=3, default=None)
    # KIP-559: a mismatch shows a member that is in the wrong group
    protocol_type: String | None = field(since=5, default=None, ignorable=True)
    protocol_name: String | None = field(since=5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    """The share of this member, in the bytes that its assignor wrote."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16
    protocol_type: String | None = field(since=5, default=None, ignorable=True)
    protocol_name: String | None = field(since=5, default=None, ignorable=True)
    assignment: Bytes
