"""A client asks which of its metrics the cluster wants to see (KIP-714)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bool, Int8, Int16, Int32, String, Uuid


class GetTelemetrySubscriptionsRequest(
    Request, key=71, versions="0", flexible="0+", listeners=("broker",)
):
    """The client's own id, or zero to be given one."""

    client_instance_id: Uuid


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    """The wanted metrics by name prefix, and how and how often to push them."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: list[String]
