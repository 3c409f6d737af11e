"""What the fetcher asks for, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client.fetcher import Fetcher
from moldau.runtime import Runtime
from tests.client.test_consumer import consumer, fill, read_all
from tests.client.world import ClientWorld


def test_what_was_committed_of_a_topic_that_is_gone_says_nothing_of_the_next_of_its_name() -> None:
    """1. It is deleted. 2. What is committed of it is still told. 3. Another one has its name."""

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g", auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            assert await reader.poll(0.5) == []
            groups.offsets["g"].clear()
            fill(world.cluster.add_topic("t", [1])[0], 10)
            assert await read_all(reader, 10) == {0: list(range(10))}

    with ClientWorld() as world:
        groups = world.cluster.groups
        groups.offsets["g"] = {("t", 0): 6}
        world.run_client(main)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The brokers that were asked, a fetch each."""
    found: list[int] = []
    fetch = Fetcher._fetch_from

    def seen(fetcher: Fetcher, node_id: int, *args: Any, **named: Any) -> None:
        before = set(fetcher._fetching)
        fetch(fetcher, node_id, *args, **named)
        found.extend(fetcher._fetching - before)

    monkeypatch.setattr(Fetcher, "_fetch_from", seen)
    return found


def test_the_next_fetch_is_under_way_while_polls_give_what_lies_here(sent: list[int]) -> None:
    """Behind the poll that waited for the answer, and before the next one."""

    async def main(runtime: Runtime) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "max_poll_records": 10}
        async with consumer(runtime, **options) as reader:
            reader.assign([("t", 0)])
            counts = []
            for _ in range(5):
                (part,) = await reader.poll(5.0)
                counts.append((part.records[0].offset, len(sent)))
            first = counts[0][1]
            expected = [(0, first), *((n, first + 1) for n in range(10, 50, 10))]
            assert counts == expected

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 50)
        world.run_client(main)


def test_what_polls_make_room_for_is_fetched_before_all_of_it_is_given(sent: list[int]) -> None:
    async def main(runtime: Runtime) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 1}
        async with consumer(runtime, **options) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.poll(5.0, max_records=1)
            await asyncio.sleep(1.0)
            before = len(sent)
            parts = await reader.poll(5.0, max_records=10)
            assert len(sent) == before
            for _ in range(3):
                parts += await reader.poll(5.0, max_records=1)
            assert len(sent) == before + 1
            assert sum(len(part.records) for part in parts) < 20 - 1, "some of it still lies here"

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 30)
        world.run_client(main)
