"""What the fetcher asks for, and when."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from moldau.client.consumer.consumer_core import ConsumerCore, ConsumerReady
from moldau.link.connection import Connection
from moldau.protocol.declare import Request
from moldau.protocol.messages.fetch import FetchRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
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


def test_a_poll_that_finds_nothing_ends_also_in_a_task_that_was_cancelled_before() -> None:
    """So a TaskGroup leaves it that has failed, in Python 3.11.2."""

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            assert await reader.poll(0.5) == []
            task.uncancel()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


def test_a_fetch_that_could_not_be_made_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever nobody foresaw is told. The broker does not count as asked for ever, nor as told of
    a partition, nor does what it might have brought take up room."""
    ask, bugs = Connection.ask, [ZeroDivisionError("a bug")]

    def fails_once(connection: Connection, request: Request, *given: Any, **named: Any) -> None:
        if isinstance(request, FetchRequest) and bugs:
            told = {each.partition for topic in request.topics for each in topic.partitions}
            if 1 in told:
                raise bugs.pop()
        ask(connection, request, *given, **named)

    async def main(runtime: Runtime) -> None:
        monkeypatch.setattr(Connection, "ask", fails_once)
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, facts: reported.append(facts))
        async with consumer(runtime, auto_offset_reset="earliest", buffer_memory=1000) as reader:
            reader.assign([("t", 0)])
            assert await read_all(reader, 30) == {0: list(range(30))}
            reader.assign([("t", 0), ("t", 1)])
            assert await read_all(reader, 30) == {1: list(range(30))}
            assert reader._core.fetches._room.asked_bytes <= 1000
        assert [str(each["exception"]) for each in reported] == ["a bug"]

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 30)
        world.run_client(main)


def test_brokers_are_told_in_which_rack_the_consumer_is() -> None:
    async def main(runtime: Runtime) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "client_rack": "r1"}
        async with consumer(runtime, **options) as reader:
            reader.assign([("t", 0)])
            await read_all(reader, 10)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
        fetches = [each for _, each in world.cluster.requests if isinstance(each, FetchRequest)]
        assert {each.rack_id for each in fetches} == {"r1"}


def test_a_broker_that_had_nothing_is_asked_again_when_something_was_taken() -> None:
    """Of the partitions that have room; another one is full for as long as a batch of it lies
    here."""

    async def main(runtime: Runtime) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 1}
        async with consumer(runtime, **options) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.poll(5.0, max_records=1)
            await asyncio.sleep(1.0)  # the simulation's time
            fill(later, 10)
            found = set()
            for _ in range(10):
                found |= {part.partition for part in await reader.poll(5.0, max_records=1)}
                await asyncio.sleep(0.1)
            assert found == {0, 1}

    with ClientWorld() as world:
        full, later = world.cluster.add_topic("t", [1, 1])
        fill(full, 200, per_batch=100)
        world.run_client(main)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The brokers that were asked, a fetch each."""
    found: list[int] = []
    ready = ConsumerCore.ready

    def seen(core: ConsumerCore, now: float) -> ConsumerReady:
        wanted = ready(core, now)
        found.extend(each.node_id for each in wanted.fetches)
        return wanted

    monkeypatch.setattr(ConsumerCore, "ready", seen)
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
