"""Metrics: counters, gauges and histograms, for both Prometheus and OTLP.

Declare them in a `Registry`, bind labels once, count on the event loop without locks, and take a
`snapshot()` for the exporter.
"""

from __future__ import annotations

from moldau.metrics.instruments import BYTES, SECONDS, Counter, Gauge, Histogram
from moldau.metrics.names import MetricKind
from moldau.metrics.prometheus import CONTENT_TYPE, render_prometheus
from moldau.metrics.registry import Family, Registry
from moldau.metrics.snapshot import HistogramValue, Metric, Point

__all__ = [
    "BYTES", "CONTENT_TYPE", "SECONDS", "Counter", "Family", "Gauge", "Histogram", "HistogramValue",
    "Metric", "MetricKind", "Point", "Registry", "render_prometheus",
]  # fmt: skip
