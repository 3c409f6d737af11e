"""Tells which SCRAM credentials users have, never the secrets (KIP-554)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, String


class UserName(Struct):
    """A user to look up."""

    name: String


class DescribeUserScramCredentialsRequest(
    Request, key=50, versions="0", flexible="0+", listeners=("broker", "controller")
):
    """The users; null or none means all."""

    users: list[UserName] | None


class CredentialInfo(Struct):
    """One mechanism and its count of iterations."""

    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    """One user."""

    user: String
    error_code: Int16
    error_message: String | None
    credential_infos: list[CredentialInfo]


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    """The mechanisms of each user."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    results: list[DescribeUserScramCredentialsResult]
