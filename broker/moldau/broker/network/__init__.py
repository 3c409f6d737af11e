"""Listeners and their connections: bytes in, requests to a service, answers out.

Where things are: `server` binds and ends; `acceptor` lets connections in; `shell` is a connection;
`request` is what a service gets and has to offer; `sender`, `outbox` and `direct` are how answers
and slices of files leave; `limits`, `memory` and `idle` are the pure cores of what is bounded;
`reactor` is what the connections of one event loop share.
"""

from __future__ import annotations

from moldau.broker.network.direct import DirectSocket, OpenDirect
from moldau.broker.network.metrics import NetworkMetrics
from moldau.broker.network.options import NO_LIMIT, ListenerOptions, NetworkOptions
from moldau.broker.network.outbox import FileSlice
from moldau.broker.network.reason import Reason
from moldau.broker.network.request import Request, Service
from moldau.broker.network.server import SocketServer
from moldau.broker.network.shell import Connection

__all__ = [
    "NO_LIMIT",
    "Connection",
    "DirectSocket",
    "FileSlice",
    "ListenerOptions",
    "NetworkMetrics",
    "NetworkOptions",
    "OpenDirect",
    "Reason",
    "Request",
    "Service",
    "SocketServer",
]
