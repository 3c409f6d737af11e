"""One registry's client on several event loops: one after the other, and at the same time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable
from typing import Any

import pytest

from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    Place,
    RegistryError,
    Schema,
    SchemaRegistry,
)
from moldau.values.wire import frame
from tests.client.serdes.served_registry import ServedRegistry, served_registry

TEXT = Schema('"string"')
ONCE: dict[str, Any] = {"max_retries": 0, "http_read_timeout_ms": 20_000}


@pytest.fixture
def served() -> Iterator[ServedRegistry]:
    with served_registry() as found:
        yield found


async def now(outcome: Any) -> Any:
    return await outcome if isawaitable(outcome) else outcome


def test_it_serves_one_loop_after_the_other(served: ServedRegistry) -> None:
    registry = SchemaRegistry(served.url, **ONCE)
    write, read = AvroSerializer(registry), AvroDeserializer(registry)

    async def both(value: Any) -> Any:
        return await now(read(await now(write(value, Place("t", False))), Place("t", False)))

    values = ["a", 1, 2.5, b"raw", "b"]
    assert [asyncio.run(both(value)) for value in values] == values
    assert served.script.connections == 4  # the last value is of a schema that is known
    assert len(served.script.texts) == 4


def test_connections_are_closed_before_their_loop_is(served: ServedRegistry) -> None:
    """One that is not is told of by a ResourceWarning, which fails the test."""
    registry = SchemaRegistry(served.url, **ONCE)
    for number in range(3):
        asyncio.run(registry.register(f"t-{number}", TEXT))
    del registry
    gc.collect()


def test_a_registry_that_nobody_has_any_more_is_closed_by_its_loop(served: ServedRegistry) -> None:
    registry = SchemaRegistry(served.url, **ONCE)
    with asyncio.Runner() as runner:
        runner.run(registry.subjects())
        circle: list[object] = [registry]
        circle.append(circle)
        del registry, circle
        gc.collect()
        assert runner.run(asyncio.to_thread(served.script.ended.wait, 20))


def test_a_loop_that_ends_without_a_word_is_forgotten(served: ServedRegistry) -> None:
    registry = SchemaRegistry(served.url, **ONCE)
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(registry.subjects()) == []
    with pytest.warns(ResourceWarning):  # noqa: PT031 - and where it is collected
        loop.close()
        asyncio.run(registry.subjects())
        gc.collect()
    assert asyncio.run(registry.subjects()) == []


def test_who_asks_at_the_very_end_of_a_loop_is_answered_and_leaves_no_connection(
    served: ServedRegistry,
) -> None:
    registry = SchemaRegistry(served.url, **ONCE)
    with asyncio.Runner() as runner:
        assert runner.run(registry.subjects()) == []
        runner.run(runner.get_loop().shutdown_asyncgens())
        with pytest.warns(ResourceWarning, match="after loop.shutdown_asyncgens"):  # httpcore's
            assert [runner.run(registry.subjects()) for _ in range(2)] == [[], []]
    assert served.script.connections == 3
    gc.collect()


def test_it_serves_several_loops_at_a_time(served: ServedRegistry) -> None:
    threads = 8
    registry = SchemaRegistry(served.url, **ONCE)
    serializer = AvroSerializer(registry)
    together = threading.Barrier(threads)

    async def write(thread: int) -> list[bytes]:
        await asyncio.to_thread(together.wait)
        place = Place(f"t-{thread % 2}", False)
        return [await now(serializer(value, place)) for value in ("a", 1, 2.5, b"raw")]

    with ThreadPoolExecutor(threads) as executor:
        written = list(executor.map(lambda thread: asyncio.run(write(thread)), range(threads)))

    texts = [each["schema"] for each in served.script.texts]
    prefixes = [frame(texts.index(f'"{name}"') + 1) for name in ("string", "long", "double")]
    assert all([data[:5] for data in each[:3]] == prefixes for each in written)
    assert all(each == written[0] for each in written)


def test_who_waits_on_another_loop_is_told_when_it_is_closed(served: ServedRegistry) -> None:
    served.script.stalls = True
    registry = SchemaRegistry(served.url, **ONCE)
    told: list[RegistryError] = []

    async def ask() -> None:
        with pytest.raises(RegistryError, match="is closed") as caught:
            await registry.register("t", TEXT)
        told.append(caught.value)

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    assert served.script.stalled.wait(20)
    asyncio.run(registry.aclose())
    thread.join(20)
    assert told
    with pytest.raises(RegistryError, match="is closed"):
        asyncio.run(registry.subjects())


def test_what_is_remembered_can_be_asked_for_without_a_loop(served: ServedRegistry) -> None:
    registry = SchemaRegistry(served.url, latest_cache_ttl_sec=1000, **ONCE)
    asyncio.run(registry.register("t", TEXT))
    latest = asyncio.run(registry.latest("t"))
    assert registry.known_latest("t") == latest
    assert registry.known_latest("other") is None
