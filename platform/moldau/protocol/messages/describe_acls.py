"""Lists the access rules that match a filter."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, String


class DescribeAclsRequest(
    Request, key=29, versions="1-3", flexible="2+", listeners=("broker", "controller")
):
    """The filter; a null string matches anything."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    # KIP-290: 3 is literal, 4 prefixed
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


class AclDescription(Struct):
    """One rule: what a principal may (or may not) do, from which host."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct):
    """A resource and its rules."""

    resource_type: Int8
    resource_name: String
    # KIP-290: 3 is literal, 4 prefixed
    pattern_type: Int8 = field(default=3)
    acls: list[AclDescription]


class DescribeAclsResponse(Response, key=29, versions="1-3", flexible="2+"):
    """The rules, grouped by the resource that they protect."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    resources: list[DescribeAclsResource]
