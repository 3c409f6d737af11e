"""Sets or removes SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bytes, Int8, Int16, Int32, String


class ScramCredentialDeletion(Struct):
    """A credential to remove."""

    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    """A credential to set; the client salts the password, the server never sees it."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


class AlterUserScramCredentialsRequest(
    Request, key=51, versions="0", flexible="0+", listeners=("broker", "controller")
):
    """What to remove and what to set; a user may be named only once."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    """The outcome for one user."""

    user: String
    error_code: Int16
    error_message: String | None


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    """The outcome for each user."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AlterUserScramCredentialsResult]
