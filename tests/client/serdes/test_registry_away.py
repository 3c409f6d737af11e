"""A consumer and a producer whose registry cannot be asked."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from moldau.client import Producer
from moldau.client.serdes import DeserializationFailed, SerializationFailed
from moldau.records import encode_batch
from moldau.runtime import Runtime
from moldau.values.wire import frame
from tests.client.consumer.decoded_values import begin, fill, read, values
from tests.client.consumer.numbered_records import consumer
from tests.client.serdes.scripted_registry import PORT, ScriptedRegistry
from tests.client.world import BOOTSTRAP, ClientWorld

STRING = {"schema": '"string"'}
RECORD = b"\x02a"
REGISTRY: dict[str, Any] = {
    "value_deserializer": "avro",
    "schema_registry_url": f"http://registry:{PORT}",
    "retries_wait_ms": 1000,
}


def failing(scripted: ScriptedRegistry, partitions: int, **options: Any) -> Any:
    """What a poll of two records of each partition fails with, and how long that takes."""

    async def main(runtime: Runtime) -> tuple[DeserializationFailed, float]:
        async with consumer(runtime, **{**REGISTRY, **options}) as reader:
            await begin(reader)
            before = runtime.clock.monotonic()
            with pytest.raises(DeserializationFailed) as caught:
                await reader.poll(5.0)
            return caught.value, runtime.clock.monotonic() - before

    with ClientWorld() as world:
        world.add_node("registry", scripted.main())
        for log in world.cluster.add_topic("t", [1] * partitions):
            log.put(encode_batch([(n, None, frame(1) + RECORD, ()) for n in range(2)]))
        return world.run_client(main)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_schema_that_cannot_be_had_is_asked_for_in_one_round_of_retries(partitions: int) -> None:
    scripted = ScriptedRegistry(refuse=deque([503] * 100))

    _, took_s = failing(scripted, partitions, max_retries=3, fetch_min_bytes=1)

    assert len(scripted.asked) == 4
    assert 5.0 < took_s < 9.0  # 1 + 2 + 4 s


def test_it_is_asked_for_again_by_the_next_poll() -> None:
    scripted = ScriptedRegistry()

    async def main(runtime: Runtime) -> list[Any]:
        async with consumer(runtime, **REGISTRY, max_retries=0) as reader:
            await begin(reader)
            with pytest.raises(DeserializationFailed):
                await reader.poll(0.5)
            return values(await read(reader, 2))

    with ClientWorld() as world:
        scripted.put("t-value", STRING)
        scripted.refuse.append(503)
        world.add_node("registry", scripted.main())
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, [frame(1) + RECORD] * 2)
        assert world.run_client(main) == ["a", "a"]
    assert len(scripted.asked) == 2


ANSWERS: dict[str, tuple[int, bytes, str]] = {
    "busy": (503, b"", ""),
    "refuses": (401, b"", ""),
    "sends on": (301, b"", "http://elsewhere/"),
    "talks otherwise": (200, b"[]", ""),
    "is no registry": (404, b"<html>", ""),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_nobody_is_told_to_seek_past_a_record_when_it_is_the_registry_that_fails(
    answer: str,
) -> None:
    scripted = ScriptedRegistry(instead={"/schemas/ids/1": ANSWERS[answer]})

    error, _ = failing(scripted, 1, max_retries=0)

    assert "seek past it" not in error.reason
    assert "poll again" in error.reason


def test_nor_when_the_registry_cannot_be_reached() -> None:
    error, _ = failing(
        ScriptedRegistry(), 1, max_retries=0, schema_registry_url="http://registry:1"
    )

    assert "cannot be reached" in error.reason
    assert "seek past it" not in error.reason


def test_a_record_of_a_schema_that_there_is_not_may_be_sought_past() -> None:
    error, _ = failing(ScriptedRegistry(), 1)

    assert error.reason.endswith("; seek past it to go on")
    assert error.context["code"] == 40403


def test_a_send_fails_after_one_round_too() -> None:
    async def main(runtime: Runtime) -> str:
        options: dict[str, Any] = {
            "value_serializer": "avro",
            "schema_registry_url": f"http://registry:{PORT}",
            "max_retries": 1,
        }
        async with Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options) as sender:
            with pytest.raises(SerializationFailed) as caught:
                await sender.send("t", "x")
            return caught.value.reason

    scripted = ScriptedRegistry(refuse=deque([503] * 100))
    with ClientWorld() as world:
        world.add_node("registry", scripted.main())
        world.cluster.add_topic("t", [1])
        assert "answered 503" in world.run_client(main)
    assert len(scripted.asked) == 2
