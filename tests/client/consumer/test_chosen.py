"""Polls that are limited to some of the partitions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import CorruptRecord, DeserializationFailed, PartitionRecords, TopicPartition
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, offsets
from tests.client.world import ClientWorld

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


async def reading(runtime: Runtime, **options: Any) -> Any:
    reader = consumer(runtime, auto_offset_reset="earliest", **options)
    await reader.start()
    reader.assign([T0, T1, T2])
    await reader.seek_to_beginning()
    return reader


def world_of(count: int, per_batch: int = 10) -> ClientWorld:
    world = ClientWorld()
    world.__enter__()
    for log in world.cluster.add_topic("t", [1, 2, 1]):
        fill(log, count, per_batch)
    return world


def test_a_limited_poll_gives_the_chosen_partitions_and_the_next_one_the_rest() -> None:
    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime)
        found: list[PartitionRecords] = []
        while sum(len(part.records) for part in found) < 100:
            found += await reader.poll(1.0, max_records=30, partitions=[T1, ("t", 2)])
        chosen = offsets(found)
        assert chosen.keys() <= {1, 2}
        assert reader.consumed()[T0].offset == 0
        while sum(len(part.records) for part in found) < 300:
            found += await reader.poll(1.0)
        assert offsets(found) == {number: list(range(100)) for number in range(3)}
        await reader.aclose()

    world = world_of(100)
    world.run_client(main)
    world.__exit__(None, None, None)


def test_what_lies_in_memory_of_others_does_not_keep_the_chosen_from_coming() -> None:
    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime, buffer_memory=2_000, max_partition_fetch_bytes=1_000)
        (first,) = await reader.poll(5.0, max_records=1, partitions=[T0])
        assert first.partition == 0
        await asyncio.sleep(5)  # all there is room for is fetched
        for where in (T1, T2, T0):
            found: list[int] = [0] if where == T0 else []
            while len(found) < 300:
                parts = await reader.poll(5.0, partitions=[where])
                assert parts, f"{where} starves"
                found += offsets(parts)[where.partition]
            assert found == list(range(300))
        await reader.aclose()

    world = world_of(300)
    world.run_client(main)
    world.__exit__(None, None, None)


def test_errors_of_others_are_raised_by_the_poll_that_asks_for_them() -> None:
    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime)
        found: list[PartitionRecords] = []
        while sum(len(part.records) for part in found) < 40:
            found += await reader.poll(1.0, partitions=[T1, T2])
        with pytest.raises(CorruptRecord):
            await reader.poll(1.0, partitions=[T0])
        await reader.aclose()

    world = world_of(20)
    world.cluster.topics["t"][0].batches[0][-1] ^= 1
    world.run_client(main)
    world.__exit__(None, None, None)


def test_records_that_cannot_be_deserialized_are_an_error_of_their_partition_alone() -> None:
    def refuse(data: bytes) -> bytes:
        if data == b"5":
            raise ValueError("five")
        return data

    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime, value_deserializer=refuse)
        found: list[PartitionRecords] = []
        (first,) = await reader.poll(1.0, partitions=[T0])
        assert [each.value for each in first.records] == [b"%d" % number for number in range(5)]
        reader.seek(T1, 6)
        while sum(len(part.records) for part in found) < 14:
            found += await reader.poll(1.0, partitions=[T1])
        with pytest.raises(DeserializationFailed):
            await reader.poll(1.0, partitions=[T0])
        await reader.aclose()

    world = world_of(20)
    world.run_client(main)
    world.__exit__(None, None, None)


def test_a_stream_of_parts_can_be_limited() -> None:
    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime)
        await reader.poll(1.0, max_records=1)
        count = 0
        async for part in reader.batches(max_records=7, partitions=[T2]):
            assert part.partition == 2
            assert len(part.records) <= 7
            count += len(part.records)
            if part.next_offset == 50:
                break
        assert count >= 49
        others = [part.partition async for part in _until(reader, 99)]
        assert set(others) == {0, 1}
        await reader.aclose()

    async def _until(reader: Any, count: int) -> Any:
        async for part in reader.batches():
            yield part
            count -= len(part.records)
            if count <= 0:
                return

    world = world_of(50)
    world.run_client(main)
    world.__exit__(None, None, None)


def test_a_choice_of_nothing_is_a_mistake() -> None:
    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime)
        with pytest.raises(ValueError, match="partitions is empty"):
            await reader.poll(partitions=[])
        with pytest.raises(ValueError, match="partitions is empty"):
            reader.batches(partitions=[])
        with pytest.raises(TypeError, match="a partition is a TopicPartition"):
            await reader.poll(partitions=["t"])
        await reader.aclose()

    world = world_of(0)
    world.run_client(main)
    world.__exit__(None, None, None)
