"""Metrics as OTLP, decoded by OpenTelemetry's own classes."""

from __future__ import annotations

import pytest

from moldau.errors import MalformedMessage
from moldau.metrics import Metric, MetricKind, Point, Registry
from moldau.metrics.otlp import REQUEST_BYTES, Requests, Times, metric_messages
from moldau.metrics.protobuf import fields
from tests.metrics.otlp_receiver import Request, Sent

TIMES = Times(1_000_000_007, 2_000_000_009)


def decoded(registry: Registry) -> list[Request]:
    packed = Requests((("service.name", "a \u00e9"),), "scope")
    made = [
        packed.add(each)
        for metric in registry.snapshot()
        for each in metric_messages(metric, TIMES)
    ]
    bodies = [each for each in (*made, packed.rest()) if each is not None]
    found = []
    for body in bodies:
        request = Request()
        request.ParseFromString(body)
        found.append(request)
    return found


def test_counters_gauges_and_histograms_arrive_as_they_are() -> None:
    registry = Registry()
    registry.counters("a.requests", "Requests.", labels=("api",)).bind("Fetch").add(2**40)
    registry.gauge("b.temperature", "Heat.", "Cel").set(-1.5)
    registry.gauge("b.level", "Level.").set(-3)
    histogram = registry.histogram("c.duration", "Time.", bounds=(0.5, 1.0))
    for value in (0.1, 0.7, 0.8, 9):
        histogram.observe(value)
    (request,) = decoded(registry)
    (resource,) = request.resource_metrics
    assert resource.resource.attributes[0].value.string_value == "a \u00e9"
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "scope"
    heat, level, requests, duration = sorted(scope.metrics, key=lambda each: each.description)
    assert requests.name == "a.requests"
    assert (requests.sum.is_monotonic, requests.sum.aggregation_temporality) == (True, 2)
    (point,) = requests.sum.data_points
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (2**40, *TIMES)
    assert (point.attributes[0].key, point.attributes[0].value.string_value) == ("api", "Fetch")
    assert (heat.unit, heat.gauge.data_points[0].as_double) == ("Cel", -1.5)
    assert level.gauge.data_points[0].as_int == -3
    (bucketed,) = duration.histogram.data_points
    assert list(bucketed.bucket_counts) == [1, 2, 1]
    assert list(bucketed.explicit_bounds) == [0.5, 1.0]
    assert bucketed.count == 4
    assert bucketed.sum == pytest.approx(10.6)
    assert duration.histogram.aggregation_temporality == 2


@pytest.mark.parametrize(
    ("name", "is_sum"),
    [("task_error_total_retries", False), ("a_requests", False), ("put_batch_total", True)],
)
def test_a_counter_that_a_collector_would_rename_goes_as_a_gauge(name: str, is_sum: bool) -> None:
    metric = Metric(name, name, "Doc.", "", MetricKind.COUNTER, (Point((), 3.0),))
    (message,) = metric_messages(metric, TIMES)
    sent = Sent.FromString(message)
    assert (sent.name, sent.WhichOneof("data")) == (name, "sum" if is_sum else "gauge")


def test_many_series_become_several_requests_of_a_bounded_size() -> None:
    registry = Registry()
    family = registry.gauges("a.many", "Many.", labels=("name",))
    for number in range(20_000):
        family.bind(f"{number:0100}").set(number)
    requests = decoded(registry)
    assert len(requests) > 1
    assert all(each.ByteSize() < REQUEST_BYTES * 1.5 for each in requests)
    values = {
        point.as_int
        for request in requests
        for metric in request.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.gauge.data_points
    }
    assert values == set(range(20_000))


@pytest.mark.parametrize(
    "data",
    [b"\x0a\x05abc", b"\x80", b"\xff" * 11, b"\x0b", b"\x09abc", b"\x02\x00"],
    ids=["too short", "no end", "too long a number", "group", "half a fixed64", "number 0"],
)
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        list(fields(data))
