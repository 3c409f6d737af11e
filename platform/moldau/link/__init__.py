"""The parts that clients and brokers share: connections to brokers, versions, backoff and metadata.

`Peers` has a broker's connections to the others, one to each, and reconnects after a loss:

    peers = Peers(runtime, ConnectionOptions(client_id="broker-1", request_timeout_s=2.0))
    peers.update({2: Address("b2", 9092), 3: Address("b3", 9092)})   # whenever the brokers change
    answer = await peers.request(2, FetchRequest(...), FetchResponse, timeout_s=1.0)
    connection = await peers.connection(3)                           # to pipeline: connection.ask()
    await peers.aclose()                                             # requests in flight fail

A request has the highest version that both sides support, unless `version` names one; all failures
are KafkaError. Nothing is retried: `Peers` only waits for the reconnect backoff before it connects
again: `moldau.runtime.backoff` has the waits for a caller's loop. Use a separate `lane` for a
request that waits at the broker for long (a fetch), as responses come in the order of the requests.
`Connection.open` makes a single connection; `Cluster` finds brokers by their bootstrap addresses,
keeps metadata fresh and retries.

Importing this package loads nothing else: a name is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.link.addresses import Address, parse_address
    from moldau.link.cluster import Cluster
    from moldau.link.connection import Connection, ConnectionOptions
    from moldau.link.connections import Connections
    from moldau.link.metadata import Metadata, TopicPartition
    from moldau.link.peers import Peers

_HOMES = {
    "Address": "addresses",
    "Cluster": "cluster",
    "Connection": "connection",
    "ConnectionOptions": "connection",
    "Connections": "connections",
    "Metadata": "metadata",
    "Peers": "peers",
    "TopicPartition": "metadata",
    "parse_address": "addresses",
}

__all__ = [
    "Address",
    "Cluster",
    "Connection",
    "ConnectionOptions",
    "Connections",
    "Metadata",
    "Peers",
    "TopicPartition",
    "parse_address",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{home}", __name__), name)
