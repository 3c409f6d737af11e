"""Takes members out of a classic group at once, instead of waiting for their timeout."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, String


class MemberIdentity(Struct):
    """A member that leaves."""

    member_id: String
    group_instance_id: String | None = field(default=None)
    # KIP-800: for the coordinator's log
    reason: String | None = field(since=5, default=None, ignorable=True)


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+", listeners=("broker",)):
    """Names the leaving members: the sender, or (KIP-345) static ones that an admin removes."""

    group_id: GroupId
    # one member only; version 3 takes a batch
    member_id: String = field(until=2, default="")
    members: list[MemberIdentity] = field(since=3, default_factory=list)


class MemberResponse(Struct):
    """The outcome for one member."""

    member_id: String
    group_instance_id: String | None
    error_code: Int16


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    """Says for each member whether it has left."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16
    members: list[MemberResponse] = field(since=3, default_factory=list)
