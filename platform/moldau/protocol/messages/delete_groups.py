"""Deletes groups that have no members, with their offsets."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, String


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+", listeners=("broker",)):
    """The groups to delete."""

    groups_names: list[String]


class DeletableGroupResult(Struct):
    """The outcome for one group."""

    group_id: String = field(map_key=True)
    error_code: Int16


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    """The outcome for each group."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[DeletableGroupResult]
