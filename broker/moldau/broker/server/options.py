"""The options of a broker's listeners, from its settings.

Invariant: no other code interprets a setting between its row and the network layer. So after a
dynamic change it is enough to call these functions again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.network import NO_LIMIT, ListenerOptions, NetworkOptions
from moldau.broker.settings import Listener, Listeners
from moldau.broker.settings.network import (
    connections_max_idle_ms,
    max_connection_creation_rate,
    max_connections,
    max_connections_per_ip,
    max_connections_per_ip_overrides,
    queued_max_request_bytes,
    socket_listen_backlog_size,
    socket_receive_buffer_bytes,
    socket_request_max_bytes,
    socket_send_buffer_bytes,
)
from moldau.broker.settings.of_listener import own_prefix
from moldau.broker.settings.syntax import parse_host_limits
from moldau.config import Setting, Settings
from moldau.runtime.process_figures import memory_limit

# As much as a reader takes between two turns of the broker, and small enough to be still in the
# processor's cache when it is read (bench/notes-broker.md).
_SEND_BUFFER_BYTES: Final = 1 << 18
_MEMORY_SHARE: Final = 4
"""A quarter of the memory may hold requests."""


def limited_hosts(settings: Settings) -> Mapping[str, int]:
    """Return the hosts with a connection limit of their own, as written in the setting."""
    return parse_host_limits(settings[max_connections_per_ip_overrides]) or {}


def network_options(settings: Settings, limits_by_address: Mapping[str, int]) -> NetworkOptions:
    """Return the options that all listeners share. `limits_by_address` is `limited_hosts` with
    addresses in place of host names."""
    return NetworkOptions(
        idle_ms_max=settings[connections_max_idle_ms],
        connections_max=settings[max_connections],
        connections_max_per_address=settings[max_connections_per_ip],
        connections_max_by_address=dict(limits_by_address),
        connections_per_second=settings[max_connection_creation_rate],
        queued_request_bytes_max=_queued_bytes(settings),
    )


def _queued_bytes(settings: Settings) -> int:
    """Return the setting; if it is not given, a part of the memory, so that clients that send half
    a request each cannot fill it."""
    size = settings[queued_max_request_bytes]
    if settings.is_given(queued_max_request_bytes):
        return size if size > 0 else NO_LIMIT
    memory = memory_limit()
    if memory is None:
        return NO_LIMIT
    return max(memory // _MEMORY_SHARE, settings[socket_request_max_bytes])


def listener_options(
    settings: Settings, listener: Listener, listeners: Listeners
) -> ListenerOptions:
    """Return the options of one listener of this node."""
    prefix = own_prefix(listener.name)
    own = settings.with_prefix(prefix)

    def limit(name: str, value: int) -> int:
        """Return the value only if it was given for this listener, because the node counts its own
        limits. Otherwise NO_LIMIT."""
        return value if f"{prefix}{name}" in settings.others else NO_LIMIT

    def buffer_bytes(row: Setting[int]) -> int | None:
        return own[row] if own[row] > 0 else None

    def given_buffer_bytes(row: Setting[int], otherwise: int | None) -> int | None:
        """Return the setting only if it was given. Kafka's default of 100 KB would keep a
        producer's sends small, and wake the broker too often for a reader."""
        return buffer_bytes(row) if own.is_given(row) else otherwise

    return ListenerOptions(
        name=listener.name,
        host=listener.host or None,
        port=listener.port,
        backlog=own[socket_listen_backlog_size],
        request_bytes_max=own[socket_request_max_bytes],
        connections_max=limit(max_connections.name, own[max_connections]),
        connections_per_second=limit(
            max_connection_creation_rate.name, own[max_connection_creation_rate]
        ),
        send_buffer_bytes=given_buffer_bytes(socket_send_buffer_bytes, _SEND_BUFFER_BYTES),
        receive_buffer_bytes=given_buffer_bytes(socket_receive_buffer_bytes, None),
        is_protected=listener.name == listeners.inter_broker and len(listeners.of_broker) > 1,
    )
