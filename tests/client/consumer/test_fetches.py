"""When a poll sees to what is to be fetched next: often enough that nobody waits for what there is,
and no more often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.consumer.consumer_core import ConsumerCore, ConsumerReady
from moldau.client.consumer.records import PartitionRecords
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill
from tests.client.world import ClientWorld

PATIENCE_S = 60.0
SOON_S = 1.0
FULL_BY_ONE = {"max_partition_fetch_bytes": 50}
"""Each batch is more than that, so a partition wants none while it has one."""


class OnlyTheLast(ConsumerInterceptor):
    """Of ten records."""

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        return [each for each in parts if 9 in each.offsets()]


@pytest.mark.parametrize("has_group", [True, False])
@pytest.mark.parametrize("per_batch", [1, 5])
def test_who_takes_just_what_lies_here_need_not_wait_for_the_next(
    per_batch: int, has_group: bool
) -> None:
    """1. An answer fills the partition and wakes a poll, 2. which takes all that there is, 3. the
    next one begins with the fetch that was put behind it, when the partition was still full."""
    options: dict[str, Any] = {**FULL_BY_ONE, "max_poll_records": per_batch}
    if has_group:
        options |= {"group_id": "g"}

    async def main(runtime: Runtime) -> float:
        async with consumer(runtime, auto_offset_reset="earliest", **options) as reader:
            reader.assign([("t", 0)])
            began, seen = runtime.clock.monotonic(), list[int]()
            while len(seen) < 20:
                seen += [n for part in await reader.poll(PATIENCE_S) for n in part.offsets()]
            assert seen == list(range(20))
            return runtime.clock.monotonic() - began

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20, per_batch)
        assert world.run_client(main) < SOON_S


@pytest.mark.parametrize("bounds", [{}, FULL_BY_ONE])
def test_who_lets_nothing_of_it_through_need_not_wait_for_the_next(bounds: dict[str, Any]) -> None:
    async def main(runtime: Runtime) -> float:
        async with consumer(
            runtime,
            auto_offset_reset="earliest",
            max_poll_records=1,
            interceptors=[OnlyTheLast()],
            **bounds,
        ) as reader:
            reader.assign([("t", 0)])
            began = runtime.clock.monotonic()
            (part,) = await reader.poll(PATIENCE_S)
            assert part.offsets() == [9]
            return runtime.clock.monotonic() - began

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10, 1)
        assert world.run_client(main) < SOON_S


def test_a_record_that_is_waited_for_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """That which asks for the next one."""
    looks, count = 0, 10
    ready = ConsumerCore.ready

    def looking(core: ConsumerCore, now: float) -> ConsumerReady:
        nonlocal looks
        looks += 1
        return ready(core, now)

    async def main(runtime: Runtime) -> int:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            assert await reader.poll(SOON_S) == []
            before = looks
            for _ in range(count):
                asyncio.get_running_loop().call_later(0.1, fill, log, 1, 1)
                assert await reader.poll(SOON_S)
            return looks - before

    monkeypatch.setattr(ConsumerCore, "ready", looking)
    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        assert count <= world.run_client(main) <= count + 2
