"""Carries one step of a SASL exchange."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bytes, Int16, Int64, String


class SaslAuthenticateRequest(
    Request, key=36, versions="0-2", flexible="2+", listeners=("broker", "controller")
):
    """The client's bytes, as its mechanism wants them."""

    auth_bytes: Bytes


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    """The server's bytes; an error ends the exchange."""

    error_code: Int16
    error_message: String | None
    auth_bytes: Bytes
    # KIP-368: authenticate again within this time, 0 means never
    session_lifetime_ms: Int64 = field(since=1, default=0, ignorable=True)
