"""What a cancelled poll has taken and not decoded: given by the next ones, as these may."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import ClientClosed
from moldau.runtime import Runtime
from moldau.values.failures import DeserializationFailed
from tests.client.consumer.group_consumer import PROTOCOLS, member
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.world import ClientWorld


async def slow(data: bytes) -> bytes:
    await asyncio.sleep(1.0)
    return data


async def cut_short(runtime: Runtime) -> None:
    async with consumer(runtime, value_deserializer=slow) as reader:
        reader.assign([("t", 0), ("t", 1)])
        await reader.seek_to_beginning()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.poll(10.0, max_records=8), 5.0)
        reader.pause()
        assert await reader.poll(3.0, max_records=8) == []
        reader.resume([("t", 1)])
        (part,) = await reader.poll(9.0, max_records=1)
        assert (part.partition, part.offsets()) == (1, [0])
        reader.resume()
        found = await read_all(reader, 9, most=3)
        assert found == {0: list(range(5)), 1: list(range(1, 5))}


def test_what_a_cancelled_poll_took_comes_in_order_and_not_of_paused_partitions() -> None:
    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 5, per_batch=5)
        world.run_client(cut_short)


def test_behind_what_cannot_be_decoded_nothing_is_given_of_what_a_cancelled_poll_took() -> None:
    async def main(runtime: Runtime) -> list[int]:
        fails = True

        async def decode(data: bytes) -> bytes:
            await asyncio.sleep(1.0)
            if fails and data == b"1":
                raise ValueError("planted")
            return data

        async with consumer(runtime, value_deserializer=decode) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.poll(10.0), 4.0)
            found = (await reader.poll(9.0, max_records=2))[0].offsets()
            with pytest.raises(DeserializationFailed):
                await reader.poll(9.0)
            fails = False
            return found + (await read_all(reader, 4))[0]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 5, per_batch=5)
        assert world.run_client(main) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_poll_that_waits_for_a_deserializer_gives_nothing_of_what_goes_with_the_close(
    kind: str,
) -> None:
    """1. The close commits and gives partitions up, 2. the deserializer is done, 3. goodbyes are
    still on their way."""

    async def main(runtime: Runtime) -> None:
        has_begun = asyncio.Event()

        async def decode(data: bytes) -> bytes:
            has_begun.set()
            return await slow(data)

        async with member(runtime, kind, value_deserializer=decode) as reader:
            await reader.subscribe("t")
            task = asyncio.create_task(reader.poll(100.0))
            await has_begun.wait()
            world.cluster.delay_s = 2.0
            await reader.aclose()
            with pytest.raises(ClientClosed):
                await task
        assert list(world.cluster.groups.offsets["g"].values()) == [0]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 5)
        world.run_client(main)


def test_a_poll_whose_time_is_over_says_so_too() -> None:
    """It had less time than the deserializer took."""

    async def main(runtime: Runtime) -> None:
        has_begun = asyncio.Event()

        async def decode(data: bytes) -> bytes:
            has_begun.set()
            return await slow(data)

        options: dict[str, Any] = {"auto_offset_reset": "earliest", "value_deserializer": decode}
        async with consumer(runtime, **options) as reader:
            reader.assign([("t", 0)])
            task = asyncio.create_task(reader.poll(1.5))
            await has_begun.wait()
            await reader.aclose()
            with pytest.raises(ClientClosed):
                await task

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 5)
        world.run_client(main)
