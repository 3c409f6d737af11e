"""The context of a request: its principal, listener, client and deadline.

A handler makes it from the connection and the header. It goes with the request to the coordinator
or the controller that decides, also when another broker forwarded the request in an envelope.
Authorization and quotas are decided from it. It holds no buffers, so it outlives the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Facts of one request that do not stand in its message."""

    client_id: str
    client_host: str
    """The address as the JVM shows it, such as "/127.0.0.1"."""
    version: int
    """The version of the API that the client spoke."""
    listener: str
    principal: str = ANONYMOUS
    deadline_ms: int | None = None
    """Monotonic. The client expects no answer after it. None: the request names no timeout."""
