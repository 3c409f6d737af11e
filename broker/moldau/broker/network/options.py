"""The options of the network layer: limits and bounds, in Kafka's terms.

They are plain numbers; `moldau.broker.settings` defines the settings they come from. An instance
never changes: a dynamic update passes a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from moldau.deferred import dataclass
from moldau.protocol.framing import MAX_FRAME_BYTES

if TYPE_CHECKING:
    import ssl

    from moldau.broker.security.login import LoginTerms
    from moldau.runtime.tls import TlsServer

NO_LIMIT = -1


def no_rate(address: str) -> float | None:
    """Return that an address has no quota."""
    return None


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """The options of all listeners of a node together."""

    idle_ms_max: int = 600_000
    """`connections.max.idle.ms`: the time without bytes in or out and without a request in
    progress. Negative means no limit."""
    is_admitting: bool = True
    """Whether connections are admitted at all. While a node starts they wait in line, those between
    brokers too."""
    connections_max: int = NO_LIMIT
    """`max.connections`: connections beyond it wait until one ends."""
    connections_max_per_address: int = NO_LIMIT
    """`max.connections.per.ip`: connections beyond it are closed at once."""
    connections_max_by_address: Mapping[str, int] = field(default_factory=dict)
    """`max.connections.per.ip.overrides`, by address. The caller has resolved host names."""
    connections_per_second: int = NO_LIMIT
    """`max.connection.creation.rate`: connections beyond it wait."""
    connection_rate_of: Callable[[str], float | None] = no_rate
    """Returns the connections a second that an address may open (the quota of KIP-612); None: any
    number. Connections beyond it are closed a moment later."""
    waiting_connections_max: int = 1024
    """How many connections may wait at one listener. Beyond it they are closed, as by a full
    backlog."""
    queued_request_bytes_max: int = NO_LIMIT
    """`queued.max.request.bytes`: the bytes of requests that are not served yet."""
    in_flight_max: int = 256
    """How many requests of one connection may wait for their responses. Beyond it the connection is
    not read."""
    unsent_bytes_pause: int = 1 << 20
    """The unsent response bytes of one connection. Beyond it no further request of it is served."""
    unsent_bytes_max: int = 64 << 20
    """The unsent bytes of one connection in memory, without file slices. Beyond it the connection
    is closed."""


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """The options of one listener: a name, where it is bound, and limits of its own."""

    name: str
    host: str | None = None
    """None or "": every address of the node."""
    port: int = 9092
    backlog: int = 1024
    """`socket.listen.backlog.size`."""
    tls: ssl.SSLContext | TlsServer | None = None
    principal_of: Callable[[bytes], str] | None = None
    """Returns the name of the principal of a client's certificate, in DER. Raises MalformedMessage
    or NoRuleApplies. None: certificates are not asked for, or a login says so."""
    login: LoginTerms | None = None
    """How clients log in. None: they do not."""
    request_bytes_max: int = MAX_FRAME_BYTES
    """`socket.request.max.bytes`. Where clients authenticate, the smaller limit until they have."""
    connections_max: int = NO_LIMIT
    """`listener.name.<name>.max.connections`."""
    connections_per_second: int = NO_LIMIT
    """`listener.name.<name>.max.connection.creation.rate`."""
    send_buffer_bytes: int | None = None
    """`socket.send.buffer.bytes`. None: the system's default, which grows with the traffic."""
    receive_buffer_bytes: int | None = None
    """`socket.receive.buffer.bytes`. None: the system's default."""
    is_protected: bool = False
    """Whether the listener is between brokers. Its connections never wait because of
    `connections_max` of the node; others make room for them."""
