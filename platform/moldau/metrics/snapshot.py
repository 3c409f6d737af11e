"""The values of all metrics at one moment, as plain data for exporters and tests.

The fields are those of OTLP (name, description, unit, kind, attributes, explicit bounds with one
count for each bucket), so an OTLP exporter only has to rename them.
"""

from __future__ import annotations

from typing import TypeAlias

from moldau.deferred import dataclass
from moldau.metrics.names import MetricKind

Attributes: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """The value of a histogram. `counts` has one entry more than `bounds`; it is not cumulative."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: int | float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Point:
    """One time series: its labels and its value."""

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
