"""What the network layer is told: limits and bounds, under one roof, in Kafka's terms.

The numbers are plain; which setting gives which is the row's business (`moldau.broker.settings`).
An instance never changes: a dynamic update hands over a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.protocol.framing import MAX_FRAME_BYTES

if TYPE_CHECKING:
    import ssl

NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """For all listeners of a node together."""

    idle_ms_max: int = 600_000
    """`connections.max.idle.ms`: nothing came, nothing went, no request is being worked on.
    Negative: for ever."""
    connections_max: int = NO_LIMIT
    """`max.connections`: more have to wait until one leaves."""
    connections_max_per_address: int = NO_LIMIT
    """`max.connections.per.ip`: more are closed at once."""
    connections_max_by_address: Mapping[str, int] = field(default_factory=dict)
    """`max.connections.per.ip.overrides`, by address (names are resolved by who reads them)."""
    connections_per_second: int = NO_LIMIT
    """`max.connection.creation.rate`: faster ones have to wait their turn."""
    waiting_connections_max: int = 1024
    """How many may wait at one listener; beyond it they are closed, as by a full backlog."""
    queued_request_bytes_max: int = NO_LIMIT
    """`queued.max.request.bytes`: of requests that are here and not served yet."""
    in_flight_max: int = 256
    """Requests of one connection that wait for their answers; then it is not read any further."""
    unsent_bytes_pause: int = 1 << 20
    """Answers of one connection that are not sent; then no further request of it is served."""
    unsent_bytes_max: int = 64 << 20
    """The same in memory, file slices not counted; beyond it the connection is closed."""


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """For one listener: a name, where it is bound, and bounds of its own."""

    name: str
    host: str | None = None
    """None or "": every address of the node."""
    port: int = 9092
    backlog: int = 1024
    """`socket.listen.backlog.size`."""
    tls: ssl.SSLContext | None = None
    request_bytes_max: int = MAX_FRAME_BYTES
    """`socket.request.max.bytes`; where clients log in, the smaller one until they have."""
    connections_max: int = NO_LIMIT
    """`listener.name.<name>.max.connections`."""
    connections_per_second: int = NO_LIMIT
    """`listener.name.<name>.max.connection.creation.rate`."""
    send_buffer_bytes: int | None = None
    """`socket.send.buffer.bytes`; None: the system's own, which grows with the traffic."""
    receive_buffer_bytes: int | None = None
    """`socket.receive.buffer.bytes`; likewise."""
    is_protected: bool = False
    """Between brokers: never waits for `connections_max` of the node, others make room for it."""
