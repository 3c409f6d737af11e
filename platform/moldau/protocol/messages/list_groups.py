"""Lists the groups that one broker coordinates; a client asks every broker."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, String


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+", listeners=("broker",)):
    """Optional filters: only groups in these states, only groups of these types."""

    # KIP-518
    states_filter: list[String] = field(since=4, default_factory=list)
    # KIP-848: classic, consumer, share, streams
    types_filter: list[String] = field(since=5, default_factory=list)


class ListedGroup(Struct):
    """One group."""

    group_id: GroupId
    protocol_type: String
    group_state: String = field(since=4, default="", ignorable=True)
    group_type: String = field(since=5, default="", ignorable=True)


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    """The groups that pass the filters."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16
    groups: list[ListedGroup]
