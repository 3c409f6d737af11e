"""What is recorded, and the queue of spans."""

from __future__ import annotations

import random

import pytest

from moldau.tracing import Attribute, Kind, Sampler, SpanContext, Tracer
from moldau.tracing.sampling import Choice
from moldau.tracing.spans import span_message

PARENT = SpanContext(b"\1" * 16, b"\2" * 8, True, b"x=1")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def monotonic(self) -> float:
        return self.now_ns / 1e9

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ns // 1_000_000


def sampler(ratio: float, *, is_parent_based: bool = True) -> Sampler:
    return Sampler(random.Random(1), ratio, is_parent_based=is_parent_based)


def roots(ratio: float, count: int, at_once: int) -> int:
    """How many traces begin in batches of records without a context."""
    choice, found = Choice(sampler(ratio)), 0
    for _ in range(count // at_once):
        index = 0
        while (index := choice.next(None, index, at_once)) < at_once:
            assert choice.take(()) is None
            found, index = found + 1, index + 1
    return found


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_the_ratio_is_that_of_new_traces_however_records_come(at_once: int) -> None:
    assert roots(0.0, 7000, at_once) == 0
    assert roots(1.0, 7000, at_once) == 7000
    assert 560 < roots(0.1, 7000, at_once) < 840


def test_a_parent_decides_for_its_children() -> None:
    choice = Choice(sampler(0.0))
    unsampled = PARENT._replace(is_sampled=False)
    headers = [
        (("traceparent", unsampled.parent),),
        (),
        (("a", b"1"), ("traceparent", PARENT.parent)),
    ]
    assert choice.next(headers, 0, 3) == 2
    assert choice.next(headers, 2, 3) == 2
    assert choice.take(headers[2]) == PARENT._replace(state=None)
    assert choice.next(headers, 3, 3) == 3
    assert Choice(sampler(1.0)).next(headers, 0, 1) == 1, "it may not begin a trace"


def test_a_sampler_that_asks_no_parent_decides_by_the_id_of_the_trace() -> None:
    half, all_but = sampler(0.5, is_parent_based=False), sampler(0.9, is_parent_based=False)
    ids = [half.new_trace_id() for _ in range(100)]
    assert all(half.takes(PARENT._replace(trace_id=each)) for each in ids)
    assert all(all_but.takes(PARENT._replace(trace_id=each)) for each in ids)
    assert not half.takes(PARENT._replace(trace_id=b"\xff" * 16))


def test_a_span_is_a_child_with_its_own_time() -> None:
    clock = Clock()
    tracer = Tracer(clock, sampler(1.0))
    span = tracer.begin("process a", Kind.CONSUMER, PARENT, {"x": 1})
    clock.now_ns += 1_500
    tracer.end(span, "it failed")
    assert span.context.trace_id == PARENT.trace_id
    assert span.parent_id == PARENT.span_id
    assert span.context.span_id != PARENT.span_id
    assert span.context.state == b"x=1"
    assert (span.begun_ns, span.ended_ns - span.begun_ns) == (1_700_000_000_000_000_000, 1_500)
    assert tracer.take(10) == [span]
    assert tracer.begin("b", Kind.PRODUCER, None, {}).parent_id == b""


def test_the_queue_is_bounded_and_what_is_lost_is_counted() -> None:
    tracer = Tracer(Clock(), sampler(1.0), queue_max=3)
    for number in range(5):
        tracer.end(tracer.begin(str(number), Kind.CONSUMER, None, {}))
    assert (tracer.ended, tracer.dropped, tracer.waiting) == (5, 2, 3)
    taken = tracer.take(2)
    assert [each.name for each in taken] == ["0", "1"]
    tracer.end(tracer.begin("5", Kind.CONSUMER, None, {}))
    tracer.put_back(taken)
    assert tracer.dropped == 3, "one of the two had to go"
    assert [each.name for each in tracer.take(10)] == ["1", "2", "5"]


def test_the_bytes_are_those_that_opentelemetry_reads() -> None:
    trace_pb2 = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
    tracer = Tracer(Clock(), sampler(1.0))
    facts: dict[str, Attribute] = {"text": "a", "whole": -3, "yes": True}
    span = tracer.begin("process a", Kind.CONSUMER, PARENT, facts, [PARENT])
    tracer.end(span, "it failed")
    read = trace_pb2.Span()
    read.ParseFromString(span_message(span))
    assert (read.name, read.kind, read.trace_state) == ("process a", 5, "x=1")
    assert (read.trace_id, read.parent_span_id) == (PARENT.trace_id, PARENT.span_id)
    assert read.span_id == span.context.span_id
    assert read.start_time_unix_nano == span.begun_ns
    assert read.end_time_unix_nano == span.ended_ns
    values = {each.key: each.value for each in read.attributes}
    assert values["text"].string_value == "a"
    assert values["whole"].int_value == -3
    assert values["yes"].bool_value is True
    assert read.links[0].span_id == PARENT.span_id
    assert (read.status.code, read.status.message) == (2, "it failed")
