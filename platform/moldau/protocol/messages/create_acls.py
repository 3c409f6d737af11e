"""Adds access rules."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, String


class AclCreation(Struct):
    """One rule: what a principal may (or may not) do to which resource, from which host."""

    resource_type: Int8
    resource_name: String
    # KIP-290: 3 is literal, 4 prefixed
    resource_pattern_type: Int8 = field(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class CreateAclsRequest(
    Request, key=30, versions="1-3", flexible="2+", listeners=("broker", "controller")
):
    """The rules to add."""

    creations: list[AclCreation]


class AclCreationResult(Struct):
    """The outcome for one rule."""

    error_code: Int16
    error_message: String | None


class CreateAclsResponse(Response, key=30, versions="1-3", flexible="2+"):
    """The outcome of each rule, in the order of the request."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AclCreationResult]
