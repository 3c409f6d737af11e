"""Lists delegation tokens that the asker may see."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bytes, Int16, Int32, Int64, String


class DescribeDelegationTokenOwner(Struct):
    """An owner to look for."""

    principal_type: String
    principal_name: String


class DescribeDelegationTokenRequest(
    Request, key=41, versions="1-3", flexible="2+", listeners=("broker", "controller")
):
    """Only tokens of these owners; null means all."""

    owners: list[DescribeDelegationTokenOwner] | None


class DescribedDelegationTokenRenewer(Struct):
    """A principal that may renew the token."""

    principal_type: String
    principal_name: String


class DescribedDelegationToken(Struct):
    """One token."""

    principal_type: String
    principal_name: String
    # KIP-373: its maker, where that is not the owner
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: list[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", flexible="2+"):
    """The tokens, with their HMACs."""

    error_code: Int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = field(default=0)
