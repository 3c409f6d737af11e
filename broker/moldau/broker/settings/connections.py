"""Reject limits on connections that would let no client connect, if they are set at run time.

A start accepts them, as in Kafka: its file can be changed again. Set at run time they would lock
out the client that wants to undo them. The check uses the effective limits of each listener.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.settings.listener import read_listeners
from moldau.broker.settings.network import max_connection_creation_rate, max_connections
from moldau.broker.settings.of_listener import own_prefix
from moldau.broker.settings.threads import Dynamic, in_force
from moldau.config import Settings

_LIMITS: Final = (max_connections, max_connection_creation_rate)


def connection_refusals(settings: Settings, before: Dynamic, after: Dynamic) -> tuple[str, ...]:
    """Return the reasons why dynamic settings cannot change in this way; see `thread_refusals`."""
    found = []
    for row in _LIMITS:
        for listener in read_listeners(settings).of_broker:
            own_name = f"{own_prefix(listener.name)}{row.name}"
            now = in_force(settings, before, own_name, row)
            wanted = in_force(settings, after, own_name, row)
            if wanted != now and wanted <= 0:
                name = f"{row.name} of listener {listener.name}"
                found.append(f"{name}: {wanted} admits no connection; allowed: 1 or more")
    return tuple(found)
