"""A client pushes its metrics to the broker (KIP-714)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bool, BytesView, Int8, Int16, Int32, Uuid


class PushTelemetryRequest(Request, key=72, versions="0", flexible="0+", listeners=("broker",)):
    """OTLP bytes, compressed as agreed; `terminating` marks the last push."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: BytesView


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    """Whether they were taken; THROTTLING and the like tell the client to slow down."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
