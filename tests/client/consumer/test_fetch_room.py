"""How much a consumer keeps that nobody reads, however many brokers it fetches from."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client.consumer.fetch import FetchRoom
from moldau.protocol.messages.fetch import FetchRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.world import ClientWorld

_BATCH = 200  # more than ten records of `fill` have


@pytest.mark.parametrize("leaders", [[1, 2], [1, 2] * 4])
def test_all_brokers_together_stay_within_the_bound(leaders: list[int]) -> None:
    """Both are asked in the same moment: each for half of it at most."""
    memory = 4_000

    async def main(runtime: Runtime) -> int:
        async with consumer(runtime, buffer_memory=memory) as reader:
            reader.assign([("t", index) for index in range(len(leaders))])
            await reader.seek_to_beginning()
            most = 0
            for _ in range(20):
                await asyncio.sleep(0.1)
                most = max(
                    most, sum(each.buffered_bytes for each in reader._core.positions.values())
                )
                await reader.poll(0.0, max_records=10)
            return most

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", leaders):
            fill(log, 2_000)
        world.cluster.delay_s = 0.02
        most = world.run_client(main)
        assert memory // 2 < most <= memory + 2 * _BATCH
        asked = [each for _, each in world.cluster.requests if isinstance(each, FetchRequest)]
        assert max(each.max_bytes for each in asked) <= memory // 2


def test_all_is_read_within_very_little_memory() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, buffer_memory=1) as reader:
            reader.assign([("t", index) for index in range(3)])
            await reader.seek_to_beginning()
            return await read_all(reader, 300)

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2, 2]):
            fill(log, 100)
        assert world.run_client(main) == {index: list(range(100)) for index in range(3)}


def test_what_is_paused_and_full_keeps_nobody_waiting() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, buffer_memory=1_000) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.seek_to_beginning()
            await asyncio.sleep(1)
            reader.pause([("t", 0)])
            return await read_all(reader, 1_000)

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2]):
            fill(log, 1_000)
        assert world.run_client(main) == {1: list(range(1_000))}


@pytest.mark.parametrize("memory", [3_000, 4_000, 5_000])
def test_one_that_has_nothing_new_does_not_take_what_little_room_there_is(memory: int) -> None:
    """What is paused holds nearly all of it. The broker that is asked first has nothing new, and
    would be asked first again."""

    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, buffer_memory=memory, max_poll_records=3) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            await reader.poll(1.0)
            await asyncio.sleep(2)
            reader.pause([("t", 0)])
            reader.assign([("t", index) for index in range(3)])
            await reader.seek_to_beginning([("t", 1), ("t", 2)])
            return await read_all(reader, 100)

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 1, 2])
        fill(logs[0], 300)
        fill(logs[2], 100)
        assert world.run_client(main) == {2: list(range(100))}


def test_who_was_passed_over_comes_first() -> None:
    room = FetchRoom(memory_bytes=1_000, fetch_bytes=800, partition_bytes=300)
    assert room.ask(1, 9, 999, 2) == 1
    assert room.ask(2, 9, 999, 2) == 0
    room.answered(1)
    assert room.in_turn([1, 2]) == [2, 1]
    assert room.ask(2, 9, 999, 2) == 1
    room.answered(2)
    assert room.in_turn([1, 2]) == [1, 2]


def test_all_come_in_turn_however_many_there_are() -> None:
    room = FetchRoom(memory_bytes=1_000, fetch_bytes=800, partition_bytes=300)
    served = []
    for _ in range(6):
        asked = {each: room.ask(each, 9, 999, 3) for each in room.in_turn([1, 2, 3])}
        served += [each for each, size in asked.items() if size]
        room.answered(served[-1])
    assert served == [1, 2, 3, 1, 2, 3]


def test_what_little_is_left_is_shared() -> None:
    room = FetchRoom(memory_bytes=1_000, fetch_bytes=800, partition_bytes=300)
    assert [room.ask(each, 9, 910, 3) for each in (1, 2, 3)] == [30, 30, 30]


def test_what_was_asked_for_is_kept_free() -> None:
    room = FetchRoom(memory_bytes=1_000, fetch_bytes=800, partition_bytes=300)
    assert room.ask(1, 1, 0, 2) == 300, "no more than its partition may have"
    assert room.ask(2, 9, 0, 2) == 500, "no more than its share"
    assert room.asked_bytes == 800
    assert room.ask(3, 9, 100, 2) == 100, "no more than is left"
    assert room.ask(4, 9, 100, 2) == 0
    for node_id in (1, 2, 3):
        room.answered(node_id)
    assert room.ask(4, 9, 5_000, 2) == 1, "a batch at least, or nothing would ever go on"
