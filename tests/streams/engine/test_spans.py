"""The spans of a task's records, what its outputs carry, and what it costs to have none."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from types import FrameType

from moldau.runtime.real import RealClock
from moldau.streams import Streams
from moldau.streams.engine.batches import Chunk, Headers, Outputs
from moldau.streams.engine.spans import SendSpans
from moldau.streams.engine.task import Task, TaskSettings
from moldau.tracing import Sampler, SpanContext, Tracer, read_context
from tests.uncollected import no_collections

PARENT = SpanContext(b"\1" * 16, b"\2" * 8, True)
TRACED: Headers = (("a", b"1"), ("traceparent", PARENT.parent))


def tracer(ratio: float = 0.0) -> Tracer:
    return Tracer(RealClock(), Sampler(random.Random(1), ratio))


def task(made: Tracer | None) -> Task:
    app = Streams("app")
    app.stream("in", str).map_values(checked).to("out")
    (program,) = app.plan().programs
    return Task(program, 0, {}, settings=TaskSettings(tracer=made))


def checked(value: str) -> str:
    if value == "bad":
        raise ValueError("it is bad")
    return value.upper()


def chunk(count: int, headers: Sequence[Headers] | None = None, value: bytes = b"x") -> Chunk:
    return Chunk(list(range(count)), [5] * count, [b"k"] * count, [value] * count, count, headers)


def test_a_record_of_a_trace_has_a_span_and_its_output_the_context() -> None:
    made = tracer()
    one = task(made)
    one.add("in", chunk(5, [(), (), TRACED, (), TRACED]))
    assert one.process(0) == 5
    first, second = made.take(10)
    assert (first.context.trace_id, first.parent_id) == (PARENT.trace_id, PARENT.span_id)
    assert first.attributes["messaging.kafka.offset"] == 2
    assert first.attributes["moldau.streams.task"] == "0_0"
    assert second.begun_ns >= first.ended_ns, "each runs by itself"
    (outputs,) = one.take_outputs()
    assert len(outputs) == 5
    carried = [read_context(each) for each in outputs.headers]
    assert carried == [None, None, first.context, None, second.context]
    assert outputs.headers[2][0] == ("a", b"1"), "other headers stay"

    sends = SendSpans(made)
    sends.begin(outputs)
    assert made.waiting == 0, "they end with the acknowledgement"
    sends.end()
    sent, _ = made.take(10)
    assert (sent.name, sent.parent_id) == ("send out", first.context.span_id)
    assert read_context(outputs.headers[2]) == sent.context


def test_a_commit_has_no_more_send_spans_than_the_queue_takes() -> None:
    made = Tracer(RealClock(), Sampler(random.Random(1), 0.0), queue_max=3)
    outputs = Outputs("out")
    for _ in range(5):
        outputs.headers.append(TRACED)
    sends = SendSpans(made)
    sends.begin(outputs)
    sends.begin(outputs)
    assert (made.dropped, made.waiting) == (7, 0)
    assert [read_context(each) == PARENT for each in outputs.headers] == [False] * 3 + [True] * 2
    sends.end()
    assert (made.dropped, made.waiting) == (7, 3), "what was begun is pushed"
    made.take(3)
    sends.begin(outputs)
    assert made.dropped == 9, "there is room again"


def test_traces_that_begin_here_follow_the_ratio() -> None:
    made = tracer(1.0)
    one = task(made)
    one.add("in", chunk(3))
    assert one.process(0) == 3
    spans = made.take(10)
    assert len({each.context.trace_id for each in spans}) == 3
    assert {each.parent_id for each in spans} == {b""}


def test_a_context_that_is_not_sampled_goes_on_unchanged() -> None:
    parent = PARENT._replace(is_sampled=False)
    made = tracer(1.0)
    one = task(made)
    one.add("in", chunk(1, [(("traceparent", parent.parent),)]))
    assert one.process(0) == 1
    assert made.waiting == 0
    assert read_context(one.take_outputs()[0].headers[0]) == parent


def test_a_record_that_fails_ends_its_span_with_the_reason() -> None:
    app = Streams("app", on_error="skip")
    app.stream("in", str).map_values(checked).to("out")
    (program,) = app.plan().programs
    made = tracer()
    one = Task(program, 0, {}, settings=TaskSettings(tracer=made))
    one.add("in", chunk(2, [TRACED, TRACED], b"bad"))
    assert one.process(0) == 2
    spans = made.take(10)
    assert [(each.error, each.attributes["error.type"]) for each in spans] == [
        ("it is bad", "ValueError")
    ] * 2


def calls(made: Tracer | None, count: int) -> int:
    """How many Python functions run for a batch of so many records."""
    one = task(made)
    one.add("in", chunk(count))
    found = 0

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal found
        found += event == "call"

    with no_collections():
        sys.setprofile(count_call)
        try:
            one.process(0, 10_000)
        finally:
            sys.setprofile(None)
    return found


def test_records_without_a_trace_cost_no_call_with_traces_or_without() -> None:
    for made in (None, tracer(0.0)):
        calls(made, 1)  # the first call of a process makes more
    off, few = calls(None, 100), calls(tracer(0.0), 100)
    assert calls(None, 1000) - off == calls(tracer(0.0), 1000) - few, "the same for each record"
    assert 0 <= few - off < 10, "a few for each batch"
