"""What all metrics were at one moment, as plain data: what exporters send and tests look at.

The fields are those that OTLP wants (name, description, unit, kind, attributes, explicit bounds
with one count a bucket), so an OTLP exporter only has to rename them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from moldau.metrics.names import MetricKind

Attributes: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """`counts` has one more entry than `bounds`; they do not add up over buckets."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: int | float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Point:
    """One time series: its labels and what it stands at."""

    attributes: Attributes
    value: int | float | HistogramValue


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with all its time series, ordered by their labels."""

    name: str
    prometheus_name: str
    doc: str
    unit: str
    kind: MetricKind
    points: tuple[Point, ...]
