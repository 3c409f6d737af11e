"""When traces are on, what is recorded, and what happens while the receiver is away."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.errors import ConfigError
from moldau.link.telemetry.traces import TracePush, TraceSettings, trace_settings
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.tracing import Kind
from tests.metrics.otlp_receiver import receiver

ALL, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
AT = "http://a:1"
ON = {
    "the option": (AT, None, {}, "http://a:1/v1/traces"),
    "the variable, whole": (None, None, {TRACES: "http://b:2/in"}, "http://b:2/in"),
    "a ratio, with the variable of all signals": (
        None,
        0.5,
        {ALL: "http://b:2"},
        "http://b:2/v1/traces",
    ),
    "the exporter": (
        None,
        None,
        {ALL: "http://b:2", "OTEL_TRACES_EXPORTER": "otlp"},
        "http://b:2/v1/traces",
    ),
}
OFF = {
    "nothing": {},
    "metrics alone": {ALL: "http://b:2"},
    "all is disabled": {TRACES: "http://b:2", "OTEL_SDK_DISABLED": "true"},
    "no exporter": {TRACES: "http://b:2", "OTEL_TRACES_EXPORTER": "none"},
}
SAMPLERS = {
    ("", ""): (1.0, True),
    ("always_off", ""): (0.0, False),
    ("traceidratio", "0.25"): (0.25, False),
    ("parentbased_traceidratio", "0.25"): (0.25, True),
    ("parentbased_always_off", "0.25"): (0.0, True),
}
REFUSED = {
    "another sampler": (AT, {"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "parentbased_traceidratio"),
    "no ratio": (
        AT,
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
        "OTEL_TRACES_SAMPLER_ARG is 2: give a number from 0 to 1",
    ),
    "no address": (None, {"OTEL_TRACES_EXPORTER": "otlp"}, "--traces http://HOST:PORT"),
    "no size": (AT, {"OTEL_BSP_MAX_QUEUE_SIZE": "many"}, "OTEL_BSP_MAX_QUEUE_SIZE"),
    "no URL": ("localhost:4318", {}, "--traces takes http://HOST:PORT"),
}


@pytest.mark.parametrize("case", ON)
def test_traces_are_on_if_they_are_asked_for(case: str) -> None:
    endpoint, ratio, environment, url = ON[case]
    found = trace_settings(endpoint, ratio, environment)
    assert found is not None
    assert (found.target.url, found.target.interval_s) == (url, 5.0)
    assert found.ratio == (ratio or 1.0)


@pytest.mark.parametrize("case", OFF)
def test_traces_are_off_otherwise(case: str) -> None:
    assert trace_settings(None, None, OFF[case]) is None


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_samplers_are_those_of_opentelemetry(name: tuple[str, str]) -> None:
    chosen, argument = name
    variables = {"OTEL_TRACES_SAMPLER": chosen, "OTEL_TRACES_SAMPLER_ARG": argument}
    found = trace_settings(AT, None, variables)
    assert found is not None
    assert (found.ratio, found.is_parent_based) == SAMPLERS[name]


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_a_word(case: str) -> None:
    endpoint, environment, words = REFUSED[case]
    with pytest.raises(ConfigError, match=words.replace(".", r"\.")):
        trace_settings(endpoint, None, environment)


@pytest.mark.real
def test_spans_wait_for_a_receiver_and_the_end_pushes_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime) -> None:
        given = trace_settings(found.address, None, {"OTEL_BSP_SCHEDULE_DELAY": "10"})
        assert given is not None
        settings = TraceSettings(given.target, queue_max=3)
        push = TracePush(runtime, settings, {"service.name": "shop"})
        tracer = push.tracer
        found.status = 503
        push.start()
        for number in range(5):
            tracer.end(tracer.begin(str(number), Kind.PRODUCER, None, {}))
        await asyncio.to_thread(found.wait_refused)
        found.status = 200
        await asyncio.to_thread(found.wait_spans, lambda spans: len(spans) == 3)
        tracer.end(tracer.begin("last", Kind.PRODUCER, None, {}))
        await push.aclose()

    with receiver() as found, caplog.at_level(logging.INFO, "moldau.traces"):
        run(main, node="push")
    assert [each.name for each in found.spans] == ["0", "1", "2", "last"]
    assert {each.service for each in found.spans} == {"shop"}
    lines = [record.getMessage() for record in caplog.records]
    assert sum("it answers 503" in line for line in lines) == 1
    assert sum("2 spans found no room" in line for line in lines) == 1
    assert found.paths == {"/v1/traces"}
