"""A dynamic setting that does nothing is told: when it is set, and at each start after it."""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.runtime import Runtime
from tests.broker.server.houses import house
from tests.broker.server.wire import Wire
from tests.runtime.arena import play

BROKER, SET, DELETE = 4, 0, 1


async def alter(wire: Wire, name: str, value: str | None, broker: str = "1") -> ErrorCode:
    config = AlterableConfig(
        name=name, config_operation=DELETE if value is None else SET, value=value
    )
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
        ],
        validate_only=False,
    )
    answer = await wire.ask(request, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.network.threads", "4"),
        ("listener.name.clients.num.network.threads", "4"),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
        ("a.plugins.own", "4"),
    ],
)
def test_what_does_nothing_is_told_when_it_is_set_and_when_the_broker_starts(
    name: str, value: str
) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            async with at.open() as (_, wire):
                assert await alter(wire, name, value) == ErrorCode.NONE
                assert await alter(wire, "log.retention.ms", "7") == ErrorCode.NONE
            (told,) = at.complaints()
            assert name in told

            at.lines.clear()
            async with at.open() as (_, wire):
                assert len(at.complaints()) == 1
                assert await alter(wire, name, None) == ErrorCode.NONE
                assert len(at.complaints()) == 1
                assert await alter(wire, name, value) == ErrorCode.NONE
                assert len(at.complaints()) == 2, "it was gone meanwhile"

    play("simulated", scenario)


@pytest.mark.parametrize(
    ("name", "value"),
    [("num.network.threads", "100"), ("metric.reporters", "x.y"), ("principal.builder.class", "x")],
)
def test_what_kafka_refuses_is_refused_and_nothing_is_stored(name: str, value: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (broker, wire):
            before = broker.node.image.configs.by_resource.copy()
            assert await alter(wire, name, value) == ErrorCode.INVALID_REQUEST
            assert broker.node.image.configs.by_resource == before
            assert not at.complaints()

    play("simulated", scenario)
