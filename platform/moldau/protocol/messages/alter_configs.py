"""Replaces all dynamic settings of a resource; IncrementalAlterConfigs took its place."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int8, Int16, Int32, String


class AlterableConfig(Struct):
    """A setting and its new value."""

    name: String = field(map_key=True)
    value: String | None


class AlterConfigsResource(Struct):
    """One resource and all its settings."""

    resource_type: Int8 = field(map_key=True)
    resource_name: String = field(map_key=True)
    configs: list[AlterableConfig]


class AlterConfigsRequest(
    Request, key=33, versions="0-2", flexible="2+", listeners=("broker", "controller")
):
    """The complete new settings: what is not named goes back to its default."""

    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    """The outcome for one resource."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    """The outcome for each resource."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[AlterConfigsResourceResponse]
