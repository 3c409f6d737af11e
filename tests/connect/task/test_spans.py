"""The spans of sinks and sources: which records have one, and what they say."""

from __future__ import annotations

import random

import pytest

from moldau.client import ConsumerRecord, TopicPartition
from moldau.client.consumer.records import PartitionRecords
from moldau.connect.task.spans import RATIO, SinkSpans, SourceSpans, end_all, traces_of
from moldau.errors import ConfigError
from moldau.runtime.real import RealClock
from moldau.tracing import Kind, Sampler, SpanContext, Tracer, read_context

PARENT = SpanContext(b"\1" * 16, b"\2" * 8, True)


def tracer(ratio: float) -> Tracer:
    return Tracer(RealClock(), Sampler(random.Random(1), ratio))


def part(*headers: tuple[tuple[str, bytes], ...], partition: int = 3) -> PartitionRecords:
    """Records with these headers, from offset 7 on."""
    records = [
        ConsumerRecord("orders", partition, 7 + index, 5, None, b"v", own)
        for index, own in enumerate(headers)
    ]
    return PartitionRecords("orders", partition, records, 7 + len(records), 7 + len(records))


def test_a_sink_has_a_span_for_each_record_of_a_trace_until_it_is_put() -> None:
    made = tracer(0.0)
    spans = SinkSpans(made, "connect-to", "to")
    spans.begin(part((), (("traceparent", PARENT.parent),), ()))
    assert made.waiting == 0
    spans.end(ValueError("the table is gone"))
    (span,) = made.take(10)
    assert (span.name, span.kind, span.parent_id) == (
        "process orders",
        Kind.CONSUMER,
        PARENT.span_id,
    )
    assert span.attributes["messaging.kafka.offset"] == 8
    assert span.attributes["messaging.destination.partition.id"] == "3"
    assert span.attributes["messaging.consumer.group.name"] == "connect-to"
    assert (span.error, span.attributes["error.type"]) == ("the table is gone", "ValueError")
    spans.end()
    assert made.waiting == 0, "a span ends once"


TRACED = (("traceparent", PARENT.parent),)


def test_a_sink_has_no_more_spans_than_the_queue_takes() -> None:
    made = Tracer(RealClock(), Sampler(random.Random(1), 0.0), queue_max=3)
    spans = SinkSpans(made, "connect-to", "to")
    spans.begin(part(TRACED, TRACED, TRACED, TRACED, TRACED))
    assert (made.dropped, made.waiting) == (2, 0)
    spans.end()
    assert (made.dropped, [each.attributes["messaging.kafka.offset"] for each in made.take(9)]) == (
        2, [7, 8, 9],
    )  # fmt: skip


def test_a_record_that_is_taken_away_before_its_put_has_no_span() -> None:
    made = tracer(0.0)
    spans = SinkSpans(made, "connect-to", "to")
    spans.begin(part(TRACED))
    spans.begin(part(TRACED, partition=4))
    spans.drop([TopicPartition("orders", 3)])
    spans.end()
    (span,) = made.take(9)
    assert span.attributes["messaging.destination.partition.id"] == "4"


def test_a_source_begins_traces_by_the_ratio_and_follows_those_that_it_is_given() -> None:
    made = tracer(0.0)
    spans = SourceSpans(made, "from")
    assert spans.begin("orders", [("a", b"1")]) == ([("a", b"1")], [])
    assert spans.begin_many("orders", 1000) == (None, [])
    headers, (span,) = spans.begin("orders", [("traceparent", PARENT.parent)])
    assert span.parent_id == PARENT.span_id
    assert read_context(headers) == span.context

    made = tracer(0.01)
    batch, many = SourceSpans(made, "from").begin_many("orders", 10_000)
    assert batch is not None
    assert 50 < len(many) < 200
    assert [read_context(each) for each in batch if each] == [each.context for each in many]
    end_all(made, many, None)
    assert made.ended == len(many)


def test_a_ratio_that_is_none_is_refused_with_its_setting() -> None:
    with pytest.raises(ConfigError) as refusal:
        traces_of({RATIO: "all"})
    assert refusal.value.context["setting"] == RATIO
    assert traces_of({}) is None
