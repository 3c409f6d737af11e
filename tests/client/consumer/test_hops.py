"""How many objects of the client a poll goes through: may only fall."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any, Final

import pytest

from moldau.client import Consumer
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import PROTOCOLS, member
from tests.client.consumer.numbered_records import consumer, fill
from tests.client.world import ClientWorld
from tests.uncollected import no_collections

MISS_MAX: Final = 5
HIT_MAX: Final = 12
HIT_AND_FETCH_MAX: Final = 18
"""Where the poll also sends a fetch that an earlier one has put off."""


class Hops:
    """The objects of the client that run in the task that counts, in their order."""

    def __init__(self) -> None:
        self.classes: dict[int, str] = {}
        self._task = asyncio.current_task()

    def __enter__(self) -> Hops:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("moldau.client."):
            return
        own = frame.f_locals.get("self")
        if own is not None and asyncio.current_task() is self._task:
            self.classes[id(own)] = type(own).__name__


async def of_a_miss(reader: Consumer) -> list[str]:
    """The classes of the objects that a poll goes through, after one that found nothing."""
    while await reader.poll(1.0):
        pass
    assert not await reader.poll()
    with no_collections(), Hops() as hops:
        found = await reader.poll()
    assert not found
    return list(hops.classes.values())


def test_a_poll_that_misses_goes_through_few_objects() -> None:
    async def main(runtime: Runtime) -> list[str]:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            return await of_a_miss(reader)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        hops = world.run_client(main)
    assert len(hops) <= MISS_MAX, " ".join(hops)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_poll_of_a_member_that_misses_goes_through_few_objects(kind: str) -> None:
    async def main(runtime: Runtime) -> list[str]:
        async with member(runtime, kind) as reader:
            await reader.subscribe("t")
            while not reader.assignment:
                await reader.poll(1.0)
            return await of_a_miss(reader)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        hops = world.run_client(main)
    assert len(hops) <= MISS_MAX, " ".join(hops)


async def of_hits(reader: Consumer) -> list[list[str]]:
    """The classes of the objects that each poll goes through that finds records."""
    found = []
    await asyncio.sleep(1.0)
    with no_collections():
        for _ in range(15):
            with Hops() as hops:
                parts = await reader.poll(1.0)
            assert parts
            found.append(list(hops.classes.values()))
    return found


@pytest.mark.parametrize("kind", [None, *PROTOCOLS])
def test_a_poll_that_hits_goes_through_few_objects(kind: str | None) -> None:
    options: dict[str, Any] = {"max_poll_records": 2, "max_partition_fetch_bytes": 200}

    async def main(runtime: Runtime) -> list[list[str]]:
        if kind is None:
            reader = consumer(runtime, auto_offset_reset="earliest", **options)
        else:
            reader = member(runtime, kind, **options)
        async with reader:
            if kind is None:
                reader.assign([("t", 0)])
            else:
                await reader.subscribe("t")
            while not reader.assignment:
                await reader.poll(0.1)
            return await of_hits(reader)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 100)
        hops = world.run_client(main)
    fetching = [each for each in hops if "FetchSession" in each]
    hits = [each for each in hops if each not in fetching]
    assert (bool(fetching), bool(hits)) == (True, True)
    assert max(map(len, hits)) <= HIT_MAX, max(hits, key=len)
    assert max(map(len, fetching)) <= HIT_AND_FETCH_MAX, max(fetching, key=len)
