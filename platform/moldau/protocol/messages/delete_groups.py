"""Deletes groups that have no members, with their offsets."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, String


class DeleteGroupsRequest(Request, key=42, versions="0-3", flexible="2+", listeners=("broker",)):
    """The groups to delete."""

    groups_names: list[GroupId]


class DeletableGroupResult(Struct):
    """The outcome for one group."""

    group_id: GroupId = field(map_key=True)
    error_code: Int16
    error_message: String | None = field(since=3, default=None, ignorable=True)


class DeleteGroupsResponse(Response, key=42, versions="0-3", flexible="2+"):
    """The outcome for each group."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[DeletableGroupResult]
