"""The metrics of the network layer. Declared once for a node, bound once for a listener."""

from __future__ import annotations

from moldau.metrics import Counter, Family, Gauge, Registry


class ListenerMetrics:
    """The metrics of one listener. The hot path adds to these in place."""

    __slots__ = ("active", "opened", "received_bytes", "requests", "sent_bytes", "waiting")

    def __init__(self, metrics: NetworkMetrics, listener: str) -> None:
        self.active: Gauge = metrics.active.bind(listener)
        self.waiting: Gauge = metrics.waiting.bind(listener)
        self.opened: Counter = metrics.opened.bind(listener)
        self.received_bytes: Counter = metrics.received_bytes.bind(listener)
        self.sent_bytes: Counter = metrics.sent_bytes.bind(listener)
        self.requests: Counter = metrics.requests.bind(listener)


class NetworkMetrics:
    """The metrics of one node."""

    def __init__(self, registry: Registry) -> None:
        by_listener = ("listener",)
        prefix = "moldau.network"
        self.active: Family[Gauge] = registry.gauges(
            f"{prefix}.connections.active",
            "Connections that are being served.",
            "{connection}",
            labels=by_listener,
        )
        self.waiting: Family[Gauge] = registry.gauges(
            f"{prefix}.connections.waiting",
            "Connections in line, because of a limit on their number or rate.",
            "{connection}",
            labels=by_listener,
        )
        self.opened: Family[Counter] = registry.counters(
            f"{prefix}.connections.opened",
            "Connections that were admitted.",
            "{connection}",
            labels=by_listener,
        )
        self.closed: Family[Counter] = registry.counters(
            f"{prefix}.connections.closed",
            "Connections that ended, by why.",
            "{connection}",
            labels=("listener", "reason"),
        )
        self.received_bytes: Family[Counter] = registry.counters(
            f"{prefix}.received", "Bytes read from clients.", "By", labels=by_listener
        )
        self.sent_bytes: Family[Counter] = registry.counters(
            f"{prefix}.sent", "Bytes written to clients.", "By", labels=by_listener
        )
        self.requests: Family[Counter] = registry.counters(
            f"{prefix}.requests",
            "Requests handed to the service.",
            "{request}",
            labels=by_listener,
        )
        self.pauses: Family[Counter] = registry.counters(
            f"{prefix}.pauses",
            "Times a connection was no longer read, by why.",
            "{pause}",
            labels=("reason",),
        )
        self.queued_bytes: Gauge = registry.gauge(
            f"{prefix}.queued", "Bytes of requests that are here and not served yet.", "By"
        )
