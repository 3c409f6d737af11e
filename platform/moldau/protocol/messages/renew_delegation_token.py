"""Pushes a delegation token's expiry further out."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bytes, Int16, Int32, Int64


class RenewDelegationTokenRequest(
    Request, key=39, versions="1-2", flexible="2+", listeners=("broker", "controller")
):
    """The token, by its HMAC, and for how long."""

    hmac: Bytes
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", flexible="2+"):
    """The new expiry."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)
