"""Changes single settings of a resource and leaves the others alone (KIP-339)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int8, Int16, Int32, String


class AlterableConfig(Struct):
    """One change; operation 0 set, 1 delete, 2 append, 3 subtract."""

    name: String = field(map_key=True)
    config_operation: Int8 = field(map_key=True)
    value: String | None


class AlterConfigsResource(Struct):
    """One resource and its changes."""

    resource_type: Int8 = field(map_key=True)
    resource_name: String = field(map_key=True)
    configs: list[AlterableConfig]


class IncrementalAlterConfigsRequest(
    Request, key=44, versions="0-1", flexible="1+", listeners=("broker", "controller")
):
    """The changes: set, delete, append to a list or subtract from one."""

    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    """The outcome for one resource."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    """The outcome for each resource."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[AlterConfigsResourceResponse]
