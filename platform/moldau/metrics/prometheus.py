"""Prometheus' text format 0.0.4: the response to a scrape of `/metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from moldau.metrics.names import prometheus_label
from moldau.metrics.snapshot import Attributes, HistogramValue, Metric, Point

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_DOC_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_LABEL_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def render_prometheus(metrics: Iterable[Metric]) -> str:
    """Return the lines of all metrics, each with HELP and TYPE first, ended by a line feed."""
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    name = metric.prometheus_name
    yield f"# HELP {name} {metric.doc.translate(_DOC_ESCAPES)}"
    yield f"# TYPE {name} {metric.kind.value}"
    for point in metric.points:
        if isinstance(point.value, HistogramValue):
            yield from _histogram_lines(name, point, point.value)
        else:
            yield f"{name}{_labels(point.attributes)} {prometheus_number(point.value)}"


def _histogram_lines(name: str, point: Point, value: HistogramValue) -> Iterator[str]:
    bounds = (*(prometheus_number(bound) for bound in value.bounds), "+Inf")
    for bound, count in zip(bounds, accumulate(value.counts), strict=True):
        yield f"{name}_bucket{_labels(point.attributes, bound)} {count}"
    yield f"{name}_sum{_labels(point.attributes)} {prometheus_number(value.sum)}"
    yield f"{name}_count{_labels(point.attributes)} {value.count}"


def _labels(attributes: Attributes, bound: str | None = None) -> str:
    pairs = [
        f'{prometheus_label(name)}="{value.translate(_LABEL_ESCAPES)}"'
        for name, value in attributes
    ]
    if bound is not None:
        pairs.append(f'le="{bound}"')
    return f"{{{','.join(pairs)}}}" if pairs else ""


def prometheus_number(value: int | float) -> str:
    """Return a number as Go's ParseFloat reads it; whole numbers without a point."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)
