"""Keeps a member of a classic group alive and carries the news that a rebalance has begun."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import GroupId, Int16, Int32, String


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+", listeners=("broker",)):
    """A sign of life from one member in one generation."""

    group_id: GroupId
    generation_id: Int32
    member_id: String
    # KIP-345: static membership
    group_instance_id: String | None = field(since=3, default=None)


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    """No error, or the word to rejoin."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16
