"""Where metrics are pushed to, and what happens when the receiver is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from moldau.errors import ConfigError
from moldau.link.telemetry.otlp import OtlpPush, OtlpTarget, PushContent, otlp_target
from moldau.logging import Loggers
from moldau.metrics import Registry
from moldau.metrics.otlp import Times, metric_messages
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.metrics.otlp_receiver import receiver

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
URLS = {
    "the option": ("http://a:1", {ENDPOINT: "http://b:2"}, "http://a:1/v1/metrics"),
    "a path of its own": ("https://a/x/", {}, "https://a/x/v1/metrics"),
    "the whole URL": ("http://a:1/v1/metrics", {}, "http://a:1/v1/metrics"),
    "the variable": (None, {ENDPOINT: "http://b:2"}, "http://b:2/v1/metrics"),
    "the variable of metrics": (
        None,
        {ENDPOINT: "http://b:2", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:3/in"},
        "http://c:3/in",
    ),
    "nothing": (None, {}, None),
    "switched off": (None, {ENDPOINT: "http://b:2", "OTEL_SDK_DISABLED": "true"}, None),
    "metrics switched off": (None, {ENDPOINT: "http://b:2", "OTEL_METRICS_EXPORTER": "none"}, None),
}
REFUSED = {
    "no URL": ("localhost:4318", {}),
    "another scheme": ("grpc://a:1", {}),
    "a line break": ("http://a:1/\r\nX: y", {}),
    "no host": ("http://[secret@", {}),
    "an impossible host": ("http://a..b:1", {}),
    "a password": ("http://user:secret@a:1", {}),
    "a header that is not ASCII": (
        None,
        {ENDPOINT: "http://b", "OTEL_EXPORTER_OTLP_HEADERS": "a=%E2%98%83"},
    ),
    "a bad port": ("http://a:999999", {}),
    "gRPC": (None, {ENDPOINT: "http://b:2", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
    "no time": (None, {ENDPOINT: "http://b:2", "OTEL_METRIC_EXPORT_INTERVAL": "1s"}),
    "no headers": (None, {ENDPOINT: "http://b:2", "OTEL_EXPORTER_OTLP_HEADERS": "secret"}),
    "a forged header": (None, {ENDPOINT: "http://b", "OTEL_EXPORTER_OTLP_HEADERS": "a=b%0d%0ac"}),
    "a compression": (None, {ENDPOINT: "http://b:2", "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}),
}


@pytest.mark.parametrize("case", URLS)
def test_options_and_variables_name_the_receiver(case: str) -> None:
    given, environment, url = URLS[case]
    found = otlp_target(given, environment)
    assert (None if found is None else found.url) == url


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused(case: str) -> None:
    given, environment = REFUSED[case]
    with pytest.raises(ConfigError) as refusal:
        otlp_target(given, environment)
    assert "secret" not in str(refusal.value)


def test_the_variables_of_opentelemetry_count() -> None:
    found = otlp_target(
        "http://a:1",
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b,y=2",
            "OTEL_METRIC_EXPORT_INTERVAL": "1500",
            "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "250",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "9",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_RESOURCE_ATTRIBUTES": "team=x,service.name=y",
            "OTEL_SERVICE_NAME": "orders",
        },
    )
    assert found is not None
    assert found.headers == {"x-key": "a b", "y": "2"}
    assert "a b" not in repr(found), "a key of a service is not shown"
    assert (found.interval_s, found.timeout_s, found.is_gzip) == (1.5, 0.25, True)
    assert dict(found.resource) == {"team": "x", "service.name": "orders"}


async def gathered(registry: Registry) -> AsyncIterator[bytes]:
    for metric in registry.snapshot():
        for each in metric_messages(metric, Times(1, 2)):
            yield each


async def until(runtime: Runtime, lines: list[str], words: str) -> None:
    """Return when a line of the log has the words."""
    deadline = runtime.clock.monotonic() + 120
    while not any(words in line for line in lines):
        assert runtime.clock.monotonic() < deadline, lines
        await asyncio.sleep(0.01)


@pytest.mark.real
def test_a_failure_is_logged_once_and_its_end_too() -> None:
    registry = Registry()
    registry.counter("a.b", "B.").add(5)
    lines: list[str] = []

    async def main(runtime: Runtime) -> None:
        log = Loggers(runtime.clock, lines.append).get("push")
        target = OtlpTarget(
            f"{found.address}/v1/metrics", {"x-key": "1"}, interval_s=0.01, is_gzip=True
        )
        push = OtlpPush(
            runtime, target, lambda: PushContent((("r", "1"),), gathered(registry)), log
        )
        found.status = 503
        push.start()
        await until(runtime, lines, "it answers 503")
        refused = found.refused
        while found.refused < refused + 5:  # noqa: ASYNC110 - another thread counts
            await asyncio.sleep(0.01)
        assert len(lines) == 1, lines
        found.status = 200
        await until(runtime, lines, "pushed again")
        assert found.wait("a.b", r="1").sum.data_points[0].as_int == 5
        assert found.headers["x-key"] == "1"
        assert found.headers["content-type"] == "application/x-protobuf"
        found.rejected = 3
        await until(runtime, lines, "it rejects 3 points: too old")
        await push.aclose()

    with receiver() as found:
        run(main, node="push")
    assert found.paths == {"/v1/metrics"}


@pytest.mark.real
def test_the_end_pushes_the_last_values_but_not_to_a_receiver_that_was_gone() -> None:
    registry = Registry()
    count = registry.counter("a.b", "B.")
    lines: list[str] = []

    async def main(runtime: Runtime) -> None:
        log = Loggers(runtime.clock, lines.append).get("push")

        def push(interval_s: float) -> OtlpPush:
            target = OtlpTarget(f"{found.address}/v1/metrics", {}, interval_s=interval_s)
            made = OtlpPush(runtime, target, lambda: PushContent((), gathered(registry)), log)
            made.start()
            return made

        first = push(3_600)
        count.add(5)
        await first.finish()
        assert found.metrics()["a.b"].sum.data_points[0].as_int == 5
        assert not lines
        found.status = 503
        await push(3_600).finish()
        assert found.refused == 1
        (line,) = lines
        assert "the last metrics cannot be pushed" in line
        gone = push(0.01)
        await until(runtime, lines, "tried again")
        await gone.aclose()
        # What it last sent may come later than its end, but not this.
        count.add(1)
        found.status = 200
        await gone.finish()
        assert len(lines) == 2
        assert found.metrics()["a.b"].sum.data_points[0].as_int == 5

    with receiver() as found:
        run(main, node="push")


@pytest.mark.real
def test_a_receiver_that_does_not_listen_or_not_answer_costs_a_line() -> None:
    lines: list[str] = []

    async def main(runtime: Runtime) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.read()
            finally:
                writer.close()

        listener = await runtime.network.serve_streams(silent, "127.0.0.1", 0)
        log = Loggers(runtime.clock, lines.append).get("push")
        registry = Registry()
        registry.gauge("a.b", "B.")

        async def push(port: int, words: str) -> None:
            target = OtlpTarget(
                f"http://user:secret@127.0.0.1:{port}/", {}, interval_s=0.01, timeout_s=0.05
            )
            push = OtlpPush(runtime, target, lambda: PushContent((), gathered(registry)), log)
            push.start()
            await until(runtime, lines, words)
            await push.aclose()

        await push(listener.port, "no answer within 0.05 s")
        port = listener.port
        listener.close()
        await push(port, "Connection refused")
        assert "secret" not in "".join(lines)

    run(main, node="push")
