"""Takes a broker that is gone for good out of the metadata."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import BrokerId, Int16, Int32, String


class UnregisterBrokerRequest(
    Request, key=64, versions="0", flexible="0+", listeners=("broker", "controller")
):
    """The broker to forget."""

    broker_id: BrokerId


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    """Whether it was forgotten."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
