"""The context of a request: its client, principal, listener and deadline.

A handler gets it from the request, which makes it from the connection and the header. It is passed
with the message to the coordinator or the controller that decides, also in the envelope of a broker
that forwards a client's request. Authorization and quotas are decided from it. It holds no buffers,
so it may outlive the request.

Invariants: a context describes the original request. A broker that forwards a client's request does
not replace it by its own, and a request that a node makes for itself has the node's own principal
(`of_node`). Only `is_over` says whether the time of a request is over.

A named tuple, because every member's join and heartbeat creates one, and a frozen dataclass costs
twice as much to create.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final, NamedTuple

from moldau.deferred import dataclass

_HOSTS_KEPT: Final = 4096
_ANY_HOST: Final = bytes(4)


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity that is authorized, such as User:alice."""

    type: str
    name: str
    is_token_authenticated: bool = False
    """Whether a delegation token authenticated it."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a connection without authentication."""

NODE: Final = "Node"
"""The type of the principal of a node's own requests. No client has it: authentication gives the
type User."""


class RequestContext(NamedTuple):
    """Facts of one request that are not in its message."""

    client_id: str
    client_host: str
    """The address as the JVM shows it, such as "/127.0.0.1". Empty if the request did not come
    through a connection."""
    version: int
    """The version of the API in which the message was written."""
    listener: str
    """The listener that the request came through. For a forwarded request it is the controller's,
    as in Kafka: the envelope has no field for it."""
    principal: Principal = ANONYMOUS
    deadline_ms: int | None = None
    """The monotonic time after which the client expects no answer. None: no timeout."""

    def with_timeout(self, timeout_ms: int, now_ms: int) -> RequestContext:
        """Return the context with the deadline from the timeout of the message."""
        return self._replace(deadline_ms=now_ms + timeout_ms)

    def is_over(self, now_ms: int) -> bool:
        """Whether the deadline has passed. If the timeout is not positive, it has from the start,
        as in Kafka."""
        return self.deadline_ms is not None and now_ms >= self.deadline_ms


def of_node(node_id: int, version: int) -> RequestContext:
    """Return the context of a request that a node makes for itself, and not for a client."""
    name = str(node_id)
    return RequestContext(name, "", version, "", Principal(NODE, name))


@lru_cache(_HOSTS_KEPT)
def shown_host(address: str) -> str:
    """Return the address as the JVM shows one that it has not resolved. Kafka stores this form."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"/{address}"
    if isinstance(known, ipaddress.IPv4Address):
        return f"/{known}"
    if known.ipv4_mapped is not None:
        return f"/{known.ipv4_mapped}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in known.exploded.split(":"))


def packed_host(client_host: str) -> bytes:
    """Return the 4 or 16 bytes of a shown host. A host without an IP address becomes 0.0.0.0."""
    try:
        return ipaddress.ip_address(client_host.removeprefix("/")).packed
    except ValueError:
        return _ANY_HOST


def unpacked_host(packed: bytes) -> str:
    """Return the shown host of 4 or 16 bytes. Raise ValueError for another length."""
    return shown_host(str(ipaddress.ip_address(packed)))
