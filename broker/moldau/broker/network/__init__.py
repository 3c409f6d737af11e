"""Listeners and their connections: bytes in, requests to a service, responses out.

The modules: `server` binds listeners and closes them; `acceptor` admits connections; `shell` is a
connection; `request` is a request and the interface of a service; `sender`, `outbox` and `direct`
send responses and slices of files; `limits`, `memory` and `idle` are the pure cores of what is
bounded; `reactor` is what the connections of one event loop share.
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
    "NO_LIMIT", "Connection", "DirectSocket", "FileSlice", "ListenerOptions", "NetworkMetrics",
    "NetworkOptions", "OpenDirect", "Reason", "Request", "Service", "SocketServer",
]  # fmt: skip
