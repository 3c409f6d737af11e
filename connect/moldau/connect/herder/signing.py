"""Signatures of requests between workers (KIP-507). No IO.

The leader makes a key and writes it to the config topic, which only workers can read. A worker
signs the body of a request with it, so that only workers can send task configs to the leader.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from moldau.connect.herder.refusals import BadRequest, Forbidden
from moldau.connect.storage.configs import DEFAULT_ALGORITHM, SessionKey

SIGNATURE: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
KEY_BYTES: Final = 32

_DIGESTS: Final = {
    "HmacSHA256": hashlib.sha256,
    "HmacSHA384": hashlib.sha384,
    "HmacSHA512": hashlib.sha512,
}


def sign(key: SessionKey, body: bytes) -> dict[str, str]:
    """Return the headers of a signed request."""
    digest = hmac.new(base64.b64decode(key.key), body, _DIGESTS[DEFAULT_ALGORITHM]).digest()
    return {SIGNATURE: base64.b64encode(digest).decode(), ALGORITHM: DEFAULT_ALGORITHM}


def verify(
    key: SessionKey | None, body: bytes, signature: str | None, algorithm: str | None
) -> None:
    """Raise BadRequest or Forbidden unless the body has a valid signature of a worker."""
    if signature is None or algorithm is None:
        raise BadRequest("Internal request missing signature")
    digest = _DIGESTS.get(algorithm)
    if digest is None:
        raise BadRequest(f"This worker does not support the '{algorithm}' signature algorithm")
    if key is None:
        raise Forbidden("no key for internal requests is known yet: try again in a moment")
    wanted = hmac.new(base64.b64decode(key.key), body, digest).digest()
    try:
        given = base64.b64decode(signature, validate=True)
    except ValueError:
        given = b""
    if not hmac.compare_digest(wanted, given):
        raise Forbidden("Internal request contained an invalid signature")


def is_outdated(key: SessionKey | None, now_ms: int, ttl_ms: int) -> bool:
    """Whether the leader has to make a new key."""
    return key is None or now_ms - key.created_ms >= ttl_ms > 0
