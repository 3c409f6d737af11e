"""`start` waits for a cluster that is not up yet, as long as a setting says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.client import Admin, Consumer, KafkaError, Producer
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld

CLIENTS = (Producer, Consumer, Admin)
Kind = Callable[..., Any]


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_starts_before_its_cluster(kind: Kind) -> None:
    with ClientWorld() as world:
        nodes = [world.nodes["b1"], world.nodes["b2"]]
        for each in nodes:
            each.crash()
            world.after(12.0, each.start)

        async def main(runtime: Runtime) -> float:
            async with kind(runtime=runtime, bootstrap_servers=BOOTSTRAP):
                return runtime.clock.monotonic()

        assert 12.0 <= world.run_client(main) < 16.0
        texts = [line.text for line in world.nodes["client1"].log]
        waits, reached = texts
        assert "waits up to 30 s for its cluster" in waits
        assert "reached its cluster in 1" in reached
        assert not any(each.log for each in nodes)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("limit_s", [0, 7])
def test_it_waits_no_longer_than_the_setting_says(kind: Kind, limit_s: int) -> None:
    async def main(runtime: Runtime) -> float:
        with pytest.raises(KafkaError, match="no broker can be reached") as caught:
            await kind(
                runtime=runtime, bootstrap_servers=BOOTSTRAP, start_timeout_ms=limit_s * 1000
            ).start()
        assert (caught.value.context["setting"] == "start.timeout.ms") is (limit_s > 0)
        return runtime.clock.monotonic()

    with ClientWorld() as world:
        for name in ("b1", "b2"):
            world.nodes[name].crash()
        assert limit_s <= world.run_client(main) < limit_s + 3
        assert len(world.nodes["client1"].log) == (limit_s > 0)


def test_who_gives_up_waiting_can_close() -> None:
    async def main(runtime: Runtime) -> float:
        consumer: Consumer[Any, Any] = Consumer(runtime=runtime, bootstrap_servers=BOOTSTRAP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.start(), 3.0)
        await consumer.aclose()
        return runtime.clock.monotonic()

    with ClientWorld() as world:
        for name in ("b1", "b2"):
            world.nodes[name].crash()
        assert world.run_client(main) < 4.0
