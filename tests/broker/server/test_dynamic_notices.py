"""What is stored and does nothing is told: a dynamic setting when it is set, and at each start."""

from __future__ import annotations

import pytest

from moldau.broker.controller.bootstrap import bootstrap_records
from moldau.broker.controller.storage import format_storage
from moldau.broker.server.storage import plan_of
from moldau.errors.codes import ErrorCode
from moldau.ids import format_uuid
from moldau.protocol.schemas.metadata_log import ClientQuotaRecord, EntityData
from moldau.runtime import Runtime
from tests.broker.server.dynamic_change import alter
from tests.broker.server.houses import house
from tests.runtime.arena import play


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.network.threads", "4"),
        ("listener.name.clients.num.network.threads", "4"),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
        ("a.plugins.own", "4"),
        ("config.providers", "env"),
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
    ("key", "entities"),
    [("producer_byte_rate", 2), ("of_later_versions", 0), ("of_later_versions", 2)],
)
def test_stored_quotas_that_are_not_enforced_are_logged_once_at_the_start(
    key: str, entities: int
) -> None:
    idle = entities if key == "of_later_versions" else 0

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            quotas = [
                ClientQuotaRecord(
                    entity=[EntityData(entity_type="user", entity_name=f"u{each}")],
                    key=key,
                    value=1.0,
                    remove=False,
                )
                for each in range(entities)
            ]
            plan = plan_of(
                at.settings(),
                format_uuid(b"c" * 16),
                [*bootstrap_records(), *quotas],
                is_standalone=True,
                host_name=at.host,
            )
            format_storage(runtime.files, plan, runtime.random, runtime.clock.wall_ms())
            for _ in range(2):
                at.lines.clear()
                async with at.open():
                    found = [line for line in at.complaints() if "quotas" in line]
                assert len(found) == min(idle, 1)
                assert all(f"entities={idle}" in line for line in found)

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
