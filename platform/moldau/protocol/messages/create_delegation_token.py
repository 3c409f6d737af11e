"""Makes a delegation token: a shared secret that stands in for its owner's login."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bytes, Int16, Int32, Int64, String


class CreatableRenewers(Struct):
    """A principal that may renew the token."""

    principal_type: String
    principal_name: String


class CreateDelegationTokenRequest(
    Request, key=38, versions="1-3", flexible="2+", listeners=("broker", "controller")
):
    """Its renewers, how long it may live, and (version 3) its owner."""

    # KIP-373: an authorised user makes a token for another user
    owner_principal_type: String | None = field(since=3, default="")
    owner_principal_name: String | None = field(since=3, default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


class CreateDelegationTokenResponse(Response, key=38, versions="1-3", flexible="2+"):
    """The token and its three times: issued, expires, never later than."""

    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = field(default=0)
