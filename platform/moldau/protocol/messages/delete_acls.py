"""Removes every access rule that matches one of the filters."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, String


class DeleteAclsFilter(Struct):
    """What to remove."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    # KIP-290: 3 is literal, 4 prefixed
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


class DeleteAclsRequest(
    Request, key=31, versions="1-3", flexible="2+", listeners=("broker", "controller")
):
    """The filters; a null string matches anything."""

    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    """A rule that matched, and whether it is gone."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    # KIP-290: 3 is literal, 4 prefixed
    pattern_type: Int8 = field(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    """The outcome of one filter."""

    error_code: Int16
    error_message: String | None
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Response, key=31, versions="1-3", flexible="2+"):
    """For each filter, in order, the rules that it removed."""

    throttle_time_ms: Int32 = field(default=0)
    filter_results: list[DeleteAclsFilterResult]
