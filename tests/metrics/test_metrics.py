"""Metrics are counted cheaply, named for two worlds, and written as Prometheus wants them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.metrics import (
    BYTES,
    SECONDS,
    Counter,
    HistogramValue,
    MetricKind,
    Registry,
    render_prometheus,
)
from moldau.metrics.names import prometheus_label, prometheus_name
from tests.metrics.exposition import ReadFamily, read_exposition


def scrape(registry: Registry) -> dict[str, ReadFamily]:
    return read_exposition(render_prometheus(registry.snapshot()))


def test_the_text_is_what_the_format_describes() -> None:
    registry = Registry()
    requests = registry.counters("moldau.network.requests", "Requests answered.", labels=("api",))
    requests.bind("Produce").add(3)
    requests.bind("Fetch").add()
    registry.gauge("moldau.log.size", "Bytes on disk,\nall logs\\.", "By").set(1.5)
    times = registry.histogram("moldau.request.duration", "How long.", bounds=(0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 2):
        times.observe(seconds)
    assert render_prometheus(registry.snapshot()) == (
        "# HELP moldau_log_size_bytes Bytes on disk,\\nall logs\\\\.\n"
        "# TYPE moldau_log_size_bytes gauge\n"
        "moldau_log_size_bytes 1.5\n"
        "# HELP moldau_network_requests_total Requests answered.\n"
        "# TYPE moldau_network_requests_total counter\n"
        'moldau_network_requests_total{api="Fetch"} 1\n'
        'moldau_network_requests_total{api="Produce"} 3\n'
        "# HELP moldau_request_duration_seconds How long.\n"
        "# TYPE moldau_request_duration_seconds histogram\n"
        'moldau_request_duration_seconds_bucket{le="0.1"} 2\n'
        'moldau_request_duration_seconds_bucket{le="1"} 3\n'
        'moldau_request_duration_seconds_bucket{le="+Inf"} 4\n'
        "moldau_request_duration_seconds_sum 2.65\n"
        "moldau_request_duration_seconds_count 4\n"
    )


TEXTS = st.text(st.one_of(st.sampled_from('\\\n"{},= '), st.characters(codec="utf-8")), max_size=9)
NUMBERS = st.floats() | st.integers(-(2**70), 2**70)


@given(
    st.dictionaries(st.tuples(TEXTS, TEXTS), NUMBERS, max_size=5),
    TEXTS.filter(str.strip),
    st.lists(st.floats(0, 20), max_size=20),
)
def test_whatever_is_counted_is_read_back(
    values: dict[tuple[str, str], float], doc: str, observed: list[float]
) -> None:
    registry = Registry()
    gauges = registry.gauges("a.gauge", doc, labels=("topic", "error.type"))
    for labels, number in values.items():
        gauges.bind(*labels).set(number)
    histogram = registry.histograms("b.time", "Time.", labels=("api",)).bind("x\n")
    for value in observed:
        histogram.observe(value)
    families = scrape(registry)
    gauge = families["a_gauge"]
    assert gauge.doc == doc
    assert gauge.kind == "gauge"
    assert len(gauge.samples) == len(values)
    for (topic, error), number in values.items():
        read = gauge.value(topic=topic, error_type=error)
        assert read == float(number) or (math.isnan(read) and math.isnan(number))
    times = families["b_time_seconds"]
    assert times.value("_count", api="x\n") == len(observed)
    assert times.value("_sum", api="x\n") == pytest.approx(math.fsum(observed))
    at_most_1 = sum(value <= 1 for value in observed)
    assert times.value("_bucket", api="x\n", le="1") == at_most_1


def test_a_histogram_puts_a_bound_into_its_own_bucket() -> None:
    histogram = Registry().histogram("a.size", "Size.", "By", bounds=(1.0, 10.0))
    for value in (0, 1, 1.1, 10, 10.1, 1e9):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 2]
    assert histogram.count == 6
    assert histogram.sum == pytest.approx(1e9 + 22.2)


def test_the_stated_bounds_ascend() -> None:
    for bounds in (SECONDS, BYTES):
        assert list(bounds) == sorted(set(bounds))


def test_counters_only_go_up() -> None:
    counter = Counter()
    counter.add()
    counter.add(2.5)
    counter.value += 1
    assert counter.value == 4.5
    with pytest.raises(AssertionError):
        counter.add(-1)


def test_gauges_go_both_ways_or_are_read() -> None:
    registry = Registry()
    gauge = registry.gauge("a", "A.")
    gauge.set(5)
    gauge.add(-7)
    known = [1, 2, 3]
    registry.read_gauge("b", "B.", read=lambda: len(known))
    assert scrape(registry)["a"].value() == -2
    assert scrape(registry)["b"].value() == 3
    known.clear()
    assert scrape(registry)["b"].value() == 0


def test_labels_bind_to_one_instrument() -> None:
    family = Registry().counters("a", "A.", labels=("topic", "partition"))
    assert family.bind("x", "0") is family.bind("x", "0")
    assert family.bind("x", "0") is not family.bind("x", "1")
    with pytest.raises(AssertionError):
        family.bind("x")
    family.remove("x", "0")
    family.remove("never", "there")
    assert len(family) == 1


def test_time_series_are_bounded() -> None:
    registry = Registry(series_max=3)
    family = registry.counters("a", "A.", labels=("client",))
    for client in range(10):
        family.bind(str(client)).add()
    assert len(family) == 3
    counter = scrape(registry)["a_total"]
    assert counter.value(otel_metric_overflow="true") == 7
    assert sum(counter.samples.values()) == 10
    family.remove("0")
    family.bind("new").add()
    assert scrape(registry)["a_total"].value(client="new") == 1


def test_one_name_is_one_metric_in_both_worlds() -> None:
    registry = Registry()
    registry.counter("a.b", "A.")
    for name, unit in (("a.b", ""), ("a_b", ""), ("a.b.total", "")):
        with pytest.raises(AssertionError, match="are both a_b_total to Prometheus"):
            registry.counter(name, "Again.", unit)
    registry.gauge("a.b", "The gauge is called a_b.")
    registry.histogram("c", "C.")
    with pytest.raises(AssertionError, match="are both c_seconds_sum"):
        registry.gauge("c.seconds.sum", "Clashes with a part of the histogram.")
    with pytest.raises(AssertionError, match="not documented"):
        registry.counter("d", "")


@pytest.mark.parametrize(
    ("name", "unit", "kind", "expected"),
    [
        ("moldau.request.duration", "s", MetricKind.HISTOGRAM, "moldau_request_duration_seconds"),
        ("moldau.io", "By", MetricKind.COUNTER, "moldau_io_bytes_total"),
        ("moldau.io.bytes", "By", MetricKind.GAUGE, "moldau_io_bytes"),
        ("moldau.requests", "{request}", MetricKind.COUNTER, "moldau_requests_total"),
        ("moldau.idle", "1", MetricKind.GAUGE, "moldau_idle_ratio"),
        ("moldau.retries", "1", MetricKind.COUNTER, "moldau_retries_total"),
        ("moldau.rate", "By/s", MetricKind.GAUGE, "moldau_rate_bytes_per_second"),
        ("moldau.rate", "{record}/s", MetricKind.GAUGE, "moldau_rate_per_second"),
        ("moldau.a_b.total", "", MetricKind.COUNTER, "moldau_a_b_total"),
    ],
)
def test_opentelemetry_names_become_prometheus_names(
    name: str, unit: str, kind: MetricKind, expected: str
) -> None:
    assert prometheus_name(name, unit, kind) == expected


@pytest.mark.parametrize("name", ["", "A", "a..b", "a.", ".a", "a-b", "1a", "a b", "a.1", "\xe9"])
def test_names_that_neither_world_takes_are_refused(name: str) -> None:
    with pytest.raises(AssertionError):
        prometheus_name(name, "", MetricKind.GAUGE)


@pytest.mark.parametrize("label", ["le", "quantile", "", "A", "a-b"])
def test_labels_that_mean_something_else_are_refused(label: str) -> None:
    with pytest.raises(AssertionError):
        prometheus_label(label)


def test_labels_must_differ_after_dots_are_gone() -> None:
    with pytest.raises(AssertionError):
        Registry().counters("a", "A.", labels=("error.type", "error_type"))


@pytest.mark.parametrize("bounds", [(), (1.0, 1.0), (2.0, 1.0), (1.0, math.inf)])
def test_bounds_must_ascend_and_end(bounds: tuple[float, ...]) -> None:
    with pytest.raises(AssertionError):
        Registry().histogram("a", "A.", bounds=bounds)


def test_a_snapshot_is_plain_data_of_its_moment() -> None:
    registry = Registry()
    counter = registry.counters("moldau.io", "Bytes.", "By", labels=("disk",)).bind("sda")
    histogram = registry.histogram("moldau.wait", "Waiting.", bounds=(1.0,))
    counter.add(5)
    histogram.observe(2)
    io, wait = registry.snapshot()
    counter.add(1)
    histogram.observe(3)
    assert (io.name, io.unit, io.kind) == ("moldau.io", "By", MetricKind.COUNTER)
    assert [(point.attributes, point.value) for point in io.points] == [((("disk", "sda"),), 5)]
    (point,) = wait.points
    assert point.value == HistogramValue((1.0,), (0, 1), 2)
