"""All metrics of one node: each is declared once, bound to its labels once, and then only counted.

    registry = Registry()
    requests = registry.counters("moldau.network.requests", "Requests answered.", labels=("api",))
    fetches = requests.bind("Fetch")        # once, where the API is set up
    fetches.add()                           # a million times

Invariants: one name is one metric, even after dots became underscores; a time series exists once;
the number of time series of a metric is limited, because labels often come from clients (the others
share one series with `otel_metric_overflow="true"`). A registry belongs to a node and is not
global, since a simulation has many nodes in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, TypeAlias, TypeVar

from moldau.metrics.instruments import SECONDS, Counter, Gauge, Histogram, ReadGauge
from moldau.metrics.names import MetricKind, prometheus_label, prometheus_name
from moldau.metrics.snapshot import Attributes, HistogramValue, Metric, Point

Instrument: TypeAlias = Counter | Gauge | ReadGauge | Histogram
I_ = TypeVar("I_", Counter, Gauge, Histogram)

SERIES_MAX = 20_000
_OVERFLOW: Attributes = (("otel.metric.overflow", "true"),)
_HISTOGRAM_PARTS = ("_bucket", "_count", "_sum")


class Family(Generic[I_]):
    """One metric with labels: an instrument for each set of label values."""

    def __init__(self, make: Callable[[], I_], labels: tuple[str, ...], series_max: int) -> None:
        self.labels = labels
        self._make: Callable[[], I_] = make
        self._series_max = series_max
        self._series: dict[tuple[str, ...], I_] = {}
        self._overflow: I_ | None = None

    def bind(self, *values: str) -> I_:
        """Return the instrument for these label values, in the order of `labels`. Keep it: this
        call costs more than counting."""
        instrument = self._series.get(values)
        if instrument is None:
            assert len(values) == len(self.labels), f"{self.labels} take {len(self.labels)} values"
            if len(self._series) >= self._series_max:
                if self._overflow is None:
                    self._overflow = self._make()
                return self._overflow
            instrument = self._series[values] = self._make()
        return instrument

    def remove(self, *values: str) -> None:
        """Remove a time series, when its topic was deleted or its client has left."""
        self._series.pop(values, None)

    def __len__(self) -> int:
        return len(self._series)

    def points(self) -> Iterator[tuple[Attributes, I_]]:
        """Yield every time series, ordered by label values."""
        for values in sorted(self._series):
            yield tuple(zip(self.labels, values, strict=True)), self._series[values]
        if self._overflow is not None:
            yield _OVERFLOW, self._overflow


class _Single:
    """A metric without labels."""

    def __init__(self, instrument: Instrument) -> None:
        self.instrument = instrument

    def points(self) -> Iterator[tuple[Attributes, Instrument]]:
        yield (), self.instrument


_Series: TypeAlias = _Single | Family[Counter] | Family[Gauge] | Family[Histogram]


class _MetricFamily:
    """A metric's name, documentation and kind, with its time series."""

    def __init__(self, name: str, doc: str, unit: str, kind: MetricKind, series: _Series) -> None:
        self.name = name
        self.prometheus_name = prometheus_name(name, unit, kind)
        self.doc = doc
        self.unit = unit
        self.kind = kind
        self.series = series

    def taken_names(self) -> set[str]:
        """Return all names that its lines begin with."""
        if self.kind is not MetricKind.HISTOGRAM:
            return {self.prometheus_name}
        return {self.prometheus_name, *(self.prometheus_name + part for part in _HISTOGRAM_PARTS)}

    def snapshot(self) -> Metric:
        points = (Point(labels, _value(instrument)) for labels, instrument in self.series.points())
        name, doc, unit, kind = self.name, self.doc, self.unit, self.kind
        return Metric(name, self.prometheus_name, doc, unit, kind, tuple(points))


def _value(instrument: Instrument) -> int | float | HistogramValue:
    if isinstance(instrument, Histogram):
        return HistogramValue(instrument.bounds, tuple(instrument.counts), instrument.sum)
    return instrument.value


class Registry:
    """The metrics of a node: declared here, and read by exporters."""

    def __init__(self, *, series_max: int = SERIES_MAX) -> None:
        """`series_max` limits the time series of each metric."""
        self._series_max = series_max
        self._metrics: dict[str, _MetricFamily] = {}
        self._taken: dict[str, str] = {}

    def counter(self, name: str, doc: str, unit: str = "") -> Counter:
        counter = Counter()
        self._declare(_MetricFamily(name, doc, unit, MetricKind.COUNTER, _Single(counter)))
        return counter

    def counters(
        self,
        name: str,
        doc: str,
        unit: str = "",
        *,
        labels: Sequence[str],
    ) -> Family[Counter]:
        family = Family(Counter, _labels(labels), self._series_max)
        self._declare(_MetricFamily(name, doc, unit, MetricKind.COUNTER, family))
        return family

    def gauge(self, name: str, doc: str, unit: str = "") -> Gauge:
        gauge = Gauge()
        self._declare(_MetricFamily(name, doc, unit, MetricKind.GAUGE, _Single(gauge)))
        return gauge

    def read_gauge(
        self, name: str, doc: str, unit: str = "", *, read: Callable[[], int | float]
    ) -> None:
        """Declare a gauge that calls `read` at each scrape."""
        self._declare(_MetricFamily(name, doc, unit, MetricKind.GAUGE, _Single(ReadGauge(read))))

    def gauges(
        self,
        name: str,
        doc: str,
        unit: str = "",
        *,
        labels: Sequence[str],
    ) -> Family[Gauge]:
        family = Family(Gauge, _labels(labels), self._series_max)
        self._declare(_MetricFamily(name, doc, unit, MetricKind.GAUGE, family))
        return family

    def histogram(
        self, name: str, doc: str, unit: str = "s", *, bounds: tuple[float, ...] = SECONDS
    ) -> Histogram:
        _assert_bounds(bounds)
        histogram = Histogram(bounds)
        self._declare(_MetricFamily(name, doc, unit, MetricKind.HISTOGRAM, _Single(histogram)))
        return histogram

    def histograms(
        self,
        name: str,
        doc: str,
        unit: str = "s",
        *,
        labels: Sequence[str],
        bounds: tuple[float, ...] = SECONDS,
    ) -> Family[Histogram]:
        _assert_bounds(bounds)
        family = Family(lambda: Histogram(bounds), _labels(labels), self._series_max)
        self._declare(_MetricFamily(name, doc, unit, MetricKind.HISTOGRAM, family))
        return family

    def _declare(self, metric: _MetricFamily) -> None:
        assert metric.doc.strip(), f"{metric.name} is not documented"
        for taken in metric.taken_names():
            other = self._taken.get(taken)
            assert other is None, f"{metric.name} and {other} are both {taken} to Prometheus"
        self._taken.update(dict.fromkeys(metric.taken_names(), metric.name))
        self._metrics[metric.prometheus_name] = metric

    def described(self) -> Iterator[tuple[str, MetricKind, tuple[str, ...], str]]:
        """Yield the Prometheus name, kind, labels and documentation of each metric, by name."""
        for name, each in sorted(self._metrics.items()):
            labels = each.series.labels if isinstance(each.series, Family) else ()
            yield name, each.kind, labels, each.doc

    def snapshot(self) -> tuple[Metric, ...]:
        """Return the present values of all metrics, ordered by name."""
        return tuple(self.each())

    def each(self) -> Iterator[Metric]:
        """Yield the present values of the metrics, ordered by name. Each is read when it is asked
        for, so that an event loop can have a turn between two."""
        for name in sorted(self._metrics):
            yield self._metrics[name].snapshot()


def _labels(names: Sequence[str]) -> tuple[str, ...]:
    assert names, "a metric without labels is declared in the singular"
    assert len({prometheus_label(name) for name in names}) == len(names), f"{names} repeat"
    return tuple(names)


def _assert_bounds(bounds: tuple[float, ...]) -> None:
    assert bounds, "a histogram has bounds"
    assert all(low < high for low, high in pairwise(bounds)), "bounds ascend"
    assert bounds[-1] < float("inf"), "the last bucket has no bound anyway"
