"""Metrics as OTLP's protobuf messages, in requests of a bounded size. No IO.

Invariants: counters and histograms are cumulative, so a request that is lost costs nothing but
resolution: the next one has everything again. A request stays near REQUEST_BYTES, whatever a
cluster has in series.

It is written by hand, because the generated classes take a dependency of 10 MB and are slower.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.metrics.names import MetricKind
from moldau.metrics.protobuf import double, message, signed64, text, unsigned
from moldau.metrics.snapshot import Attributes, HistogramValue, Metric, Point

REQUEST_BYTES: Final = 1_000_000
"""After as many bytes, a new request begins."""
CONTENT_TYPE: Final = "application/x-protobuf"
_POINTS_AT_ONCE: Final = 1_000
_CUMULATIVE: Final = 2
_GAUGE, _SUM, _HISTOGRAM = 5, 7, 9


class Times(NamedTuple):
    """Since when counters count, and when they were read; nanoseconds since 1970."""

    started_ns: int
    now_ns: int


class Requests:
    """Packs Metric messages into the bodies of requests (ExportMetricsServiceRequest)."""

    def __init__(self, resource: Attributes, scope: str) -> None:
        self._head = message(1, b"".join(attribute(1, each) for each in resource))
        self._scope = message(1, text(1, scope))
        self._metrics: list[bytes] = []
        self._size = 0

    def add(self, metric: bytes) -> bytes | None:
        """Add one of `metric_messages`. Return a request that is full with it."""
        self._metrics.append(message(2, metric))
        self._size += len(metric)
        return self.rest() if self._size >= REQUEST_BYTES else None

    def rest(self) -> bytes | None:
        """Return the last request, unless nothing is left for it."""
        if not self._metrics:
            return None
        body = message(1, self._head + message(2, self._scope + b"".join(self._metrics)))
        self._metrics, self._size = [], 0
        return body


def metric_messages(metric: Metric, times: Times) -> Iterator[bytes]:
    """Yield Metric messages with the points of a metric, some at a time. A counter with a
    name that a collector would change goes as a gauge, and so keeps the name it has on `/metrics`.
    """
    is_gauge = metric.kind is MetricKind.GAUGE or not _keeps_its_name(metric)
    head = text(1, metric.name) + text(2, metric.doc) + text(3, metric.unit)
    for begin in range(0, len(metric.points), _POINTS_AT_ONCE):
        points = metric.points[begin : begin + _POINTS_AT_ONCE]
        body = b"".join(message(1, _point(each, times)) for each in points)
        if is_gauge:
            yield head + message(_GAUGE, body)
        elif metric.kind is MetricKind.COUNTER:
            yield head + message(_SUM, body + unsigned(2, _CUMULATIVE) + unsigned(3, 1))
        else:
            yield head + message(_HISTOGRAM, body + unsigned(2, _CUMULATIVE))


def _keeps_its_name(metric: Metric) -> bool:
    """Say whether Prometheus' translation of OTLP leaves the name as it is: of a counter it removes
    each word `total`, and adds one at the end."""
    if metric.kind is not MetricKind.COUNTER:
        return True
    *words, last = metric.prometheus_name.split("_")
    return last == "total" and last not in words


def attribute(number: int, pair: tuple[str, str]) -> bytes:
    """Return a KeyValue field with a text."""
    return message(number, text(1, pair[0]) + message(2, text(1, pair[1])))


def _point(point: Point, times: Times) -> bytes:
    since = signed64(2, times.started_ns) + signed64(3, times.now_ns)
    value = point.value
    if isinstance(value, HistogramValue):
        body = (
            signed64(4, value.count)
            + double(5, value.sum)
            + message(6, struct.pack(f"<{len(value.counts)}Q", *value.counts))
            + message(7, struct.pack(f"<{len(value.bounds)}d", *value.bounds))
        )
        return since + body + b"".join(attribute(9, each) for each in point.attributes)
    number = signed64(6, value) if isinstance(value, int) else double(4, value)
    return since + number + b"".join(attribute(7, each) for each in point.attributes)
