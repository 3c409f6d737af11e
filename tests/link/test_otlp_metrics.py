"""The metrics of Streams, Connect and the registry: where they go, and what keeps them away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from moldau.errors import ConfigError, MoldauError
from moldau.link.telemetry.metrics import SETTING, metrics_push, metrics_target
from moldau.link.telemetry.otlp import OtlpTarget
from moldau.metrics import Metric, Registry
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.metrics.otlp_receiver import receiver

GRPC = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:2", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}


def test_an_address_that_is_given_is_checked() -> None:
    for given, environment in (("b:2", {}), ("http://b:2", GRPC)):
        with pytest.raises(ConfigError):
            metrics_target(given, environment)
    with pytest.raises(ConfigError, match=SETTING):
        metrics_target("b:2", {})


def test_variables_for_other_programs_keep_none_from_starting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "moldau.metrics"):
        assert metrics_target(None, GRPC) is None
        assert metrics_target("", {}) is None
    (line,) = caplog.messages
    assert "not pushed" in line
    assert "grpc" in line
    found = metrics_target(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:2"})
    assert found is not None
    assert found.url == "http://b:2/v1/metrics"


@pytest.mark.real
def test_a_read_that_fails_costs_one_push_and_attributes_of_the_environment_win() -> None:
    registry = Registry()
    registry.counter("a.b", "B.").add(5)
    reads = 0

    async def read() -> Sequence[Metric]:
        nonlocal reads
        reads += 1
        if reads == 1:
            raise MoldauError("the stores are away")
        return registry.snapshot()

    async def main(runtime: Runtime) -> None:
        resource = (("service.name", "theirs"),)
        target = OtlpTarget(f"{found.address}/v1/metrics", {}, interval_s=0.01, resource=resource)
        own = {"service.name": "own", "service.instance.id": "1"}
        push = metrics_push(runtime, target, own, read)
        push.start()
        await asyncio.to_thread(
            found.wait, "a.b", service__name="theirs", service__instance__id="1"
        )
        await push.aclose()

    with receiver() as found:
        run(main, node="push")
    assert reads >= 2
