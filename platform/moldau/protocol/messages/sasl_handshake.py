"""Opens SASL authentication by naming a mechanism.

Never flexible: it is spoken before anything else is known about the peer.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response
from moldau.protocol.types import Int16, String


class SaslHandshakeRequest(
    Request, key=17, versions="0-1", flexible="none", listeners=("broker", "controller")
):
    """The mechanism that the client wants to use."""

    mechanism: String


class SaslHandshakeResponse(Response, key=17, versions="0-1", flexible="none"):
    """Error if it is not offered; always the mechanisms that are."""

    error_code: Int16
    mechanisms: list[String]
