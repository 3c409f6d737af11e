"""How an admin asks: what it names when a broker is not there or nobody answers."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client import Admin, Resource, ResourceType, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld


def test_a_broker_that_is_not_there_is_told_at_once_and_by_its_number() -> None:
    broker = Resource(ResourceType.BROKER, "7")

    async def main(runtime: Runtime) -> None:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            begun = runtime.clock.monotonic()
            for attempt in (
                admin.alter_configs(broker, set_to={"x": "1"}),
                admin.describe_configs(broker),
                admin.describe_log_dirs([7]),
                admin.alter_replica_log_dirs({(TopicPartition("t", 0), 7): "/data"}),
            ):
                with pytest.raises(KafkaError) as caught:
                    await attempt
                assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
                assert caught.value.context == {"broker": 7, "brokers": [1, 2]}
            assert runtime.clock.monotonic() - begun < 1.0

    with ClientWorld() as world:
        world.run_client(main)


def test_what_kept_an_answer_away_is_told_in_the_end() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        options: dict[str, Any] = {"default_api_timeout_ms": 5_000, "request_timeout_ms": 700}
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime, **options) as admin:
            world.cluster.silence.add(MetadataRequest)
            with pytest.raises(KafkaError) as caught:
                await admin.describe_topics(["t"])
        return caught.value

    with ClientWorld() as world:
        error = world.run_client(main)
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert error.reason == "the broker leaves a request without an answer"
    assert error.context["broker"] in ("b1:9092", "b2:9092")
    assert error.context["attempts"] > 1
    assert error.context["setting"] == "default.api.timeout.ms"
    assert error.context["seconds"] == 5.0
