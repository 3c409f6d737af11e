"""Lists the resources that have settings (KIP-1142).

Version 0 (KIP-714) knows client metrics only.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, String


class ListConfigResourcesRequest(
    Request, key=74, versions="0-1", flexible="0+", listeners=("broker",)
):
    """Only resources of these types; none means all."""

    resource_types: list[Int8] = field(since=1, default_factory=list)


class ConfigResource(Struct):
    """One resource; the default type 16 is client metrics."""

    resource_name: String
    resource_type: Int8 = field(since=1, default=16, ignorable=True)


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    """The resources."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    config_resources: list[ConfigResource]
