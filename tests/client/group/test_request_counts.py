"""How many requests a member sends to join, to live, to rebalance and to leave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member as consumer
from tests.client.consumer.numbered_records import fill
from tests.client.group.greeters import Greeters
from tests.client.group.greeting_member import eventually
from tests.client.group.greeting_member import member as group_member
from tests.client.scripted_groups import HANDLED
from tests.client.world import ClientWorld

MEMBERSHIP = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat")
KINDS = ["eager", "cooperative", "greeters"]


@asynccontextmanager
async def living(runtime: Runtime, kind: str) -> AsyncIterator[Callable[[], int]]:
    """A member that follows its group; gives how much it was assigned."""
    if kind == "greeters":
        greeters = Greeters()
        async with group_member(runtime, greeters, heartbeat_interval_ms=1_000):
            yield lambda: len(greeters.words)
        return
    strategy = "cooperative-sticky" if kind == "cooperative" else "range"
    options: dict[str, Any] = {"group_protocol": "classic", "heartbeat_interval_ms": 1_000}
    async with consumer(
        runtime, "eager", partition_assignment_strategy=strategy, **options
    ) as reader:
        await reader.subscribe("t")

        async def polls() -> None:
            while True:
                await reader.poll(timeout_s=0.1)

        polling = asyncio.create_task(polls())
        try:
            yield lambda: len(reader.assignment)
        finally:
            polling.cancel()
            with suppress(asyncio.CancelledError):
                await polling


def counts(world: ClientWorld) -> dict[str, int]:
    """Of the requests since the last call that concern the membership."""
    seen = [type(each).__name__.removesuffix("Request") for _, each in world.cluster.requests]
    world.cluster.requests.clear()
    return dict(Counter(each for each in seen if each in MEMBERSHIP))


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_sends_no_request_too_many(kind: str) -> None:
    """Two joins bring the id and the generation; a cooperative group has a second generation to
    give what was given up."""
    told: dict[str, dict[str, int]] = {}

    async def main(runtime: Runtime) -> None:
        async with living(runtime, kind) as first:
            await eventually(lambda: first() == 4)
            told["join"] = counts(world)
            await asyncio.sleep(10.0)
            told["live"] = counts(world)
            async with living(runtime, kind) as second:
                await eventually(lambda: first() == second() == 2)
                told["rebalance"] = counts(world)
            told["leave"] = counts(world)
            await eventually(lambda: first() == 4)
            counts(world)
        told["end"] = counts(world)

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1, 1, 1]):
            fill(log, 1)
        world.run_client(main)
    assert {request.__name__.removesuffix("Request") for request in HANDLED} > set(MEMBERSHIP)
    heartbeats = {each: seen.pop("Heartbeat", 0) for each, seen in told.items()}
    rounds = 2 if kind == "cooperative" else 1
    assert told == {
        "join": {"JoinGroup": 2, "SyncGroup": 1},
        "live": {},
        "rebalance": {"JoinGroup": 1 + 2 * rounds, "SyncGroup": 2 * rounds},
        "leave": {"LeaveGroup": 1},
        "end": {"LeaveGroup": 1},
    }
    assert 9 <= heartbeats["live"] <= 10
    assert heartbeats["rebalance"] <= 2 * rounds
    assert heartbeats["leave"] == heartbeats["end"] == 0
