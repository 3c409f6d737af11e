"""Brings a delegation token's expiry nearer; a negative period ends it now."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bytes, Int16, Int32, Int64


class ExpireDelegationTokenRequest(
    Request, key=40, versions="1-2", flexible="2+", listeners=("broker", "controller")
):
    """The token, by its HMAC, and for how long it shall still live."""

    hmac: Bytes
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", flexible="2+"):
    """The new expiry."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)
