"""A controller introduces itself to the active controller when it starts (KIP-919)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int16, Int32, String, Uint16, Uuid


class Listener(Struct):
    """An address that brokers and admin clients can use."""

    name: String = field(map_key=True)
    host: String
    port: Uint16
    security_protocol: Int16


class Feature(Struct):
    """A feature and the levels that this controller could run at."""

    name: String = field(map_key=True)
    min_supported_version: Int16
    max_supported_version: Int16


class ControllerRegistrationRequest(
    Request, key=70, versions="0", flexible="0+", listeners=("controller",)
):
    """The controller's identity, addresses and features."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    listeners: list[Listener]
    features: list[Feature]


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    """Whether it is registered."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
