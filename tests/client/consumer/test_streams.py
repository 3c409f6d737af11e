"""Going through several partitions with `async for`, and what becomes of parts not given yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from moldau.client import Consumer, ConsumerRecord, PartitionRecords, TopicPartition
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.consumer.fetched_partitions import COUNT, all_at_once
from tests.client.consumer.numbered_records import consumer, fill, offsets
from tests.client.world import ClientWorld

ALL = {index: list(range(10)) for index in range(COUNT)}


def run(main: Callable[[Runtime], Any]) -> Any:
    """Four partitions of ten records, which the first poll finds all at once."""
    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1] * COUNT):
            fill(log, 10)
        return world.run_client(main)


def member(runtime: Runtime, **options: Any) -> Consumer:
    return consumer(runtime, group_id="g", auto_offset_reset="earliest", **options)


async def first(read: AsyncIterator[PartitionRecords]) -> PartitionRecords:
    """The first part, when there are others behind it that were polled with it."""
    async for part in read:
        return part
    raise AssertionError("it ended")


async def rest(reader: Consumer, count: int) -> list[PartitionRecords]:
    """So many records, and none besides them."""
    found: list[PartitionRecords] = []
    async with asyncio.timeout(60.0):
        while sum(len(part.records) for part in found) < count:
            found += await reader.poll(1.0)
    assert await reader.poll(1.0) == []
    return found


def committed(found: dict[TopicPartition, Any]) -> dict[int, int]:
    return {where.partition: each.offset for where, each in found.items() if each is not None}


def test_who_leaves_after_one_part_commits_that_one_and_the_next_member_gets_the_others() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with member(runtime) as reader:
            await reader.subscribe("t")
            parts = [await first(reader.batches())]
        async with member(runtime) as reader:
            await reader.subscribe("t")
            parts += await rest(reader, 40 - len(parts[0].records))
        return offsets(parts)

    assert run(main) == ALL


@pytest.mark.parametrize("how", ["poll", "batches", "records"])
def test_whatever_reads_next_goes_on_with_the_parts_that_were_not_given(how: str) -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with member(runtime) as reader:
            await all_at_once(reader)
            parts = [await first(reader.batches())]
            found = offsets(parts)
            if how == "poll":
                parts += await reader.poll()
                return offsets(parts)
            read: AsyncIterator[Any] = aiter(reader) if how == "records" else reader.batches()
            while sum(map(len, found.values())) < 40:
                _put(found, await anext(read))
            return found

    def _put(found: dict[int, list[int]], each: ConsumerRecord | PartitionRecords) -> None:
        new = [each.offset] if isinstance(each, ConsumerRecord) else each.offsets()
        found.setdefault(each.partition, []).extend(new)

    assert run(main) == ALL


def test_a_part_that_was_left_in_the_middle_comes_first_from_the_next_record_on() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime) as reader:
            await all_at_once(reader)
            records = aiter(reader)
            begun = [await anext(records) for _ in range(3)]
            read = reader.batches(max_records=5)
            part = await anext(read)
            assert (part.partition, part.offsets()) == (begun[0].partition, [3, 4, 5, 6, 7])
            assert part.next_offset == 8
            assert committed(reader.consumed())[part.partition] == 8
            part = await anext(read)
            assert (part.partition, part.offsets()) == (begun[0].partition, [8, 9])

    run(main)


def test_a_commit_inside_covers_the_part_at_hand_and_those_before_it() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime) as reader:
            await all_at_once(reader)
            given: dict[int, int] = {}
            async for part in reader.batches():
                given[part.partition] = part.next_offset
                await reader.commit()
                stored = committed(await reader.committed())
                assert stored == {**dict.fromkeys(range(COUNT), 0), **given}
                assert sum(reader.position(("t", index)) or 0 for index in range(COUNT)) == sum(
                    given.values()
                )
                if len(given) == COUNT:
                    break

    run(main)


def test_after_a_seek_inside_only_what_was_sought_comes() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with member(runtime) as reader:
            await all_at_once(reader)
            read = reader.batches()
            part = await anext(read)
            found = [part]
            other = (part.partition + 1) % COUNT
            reader.seek(("t", other), 7)
            while sum(len(each.records) for each in found) < 33:
                found.append(await anext(read))
            assert await reader.poll(1.0) == []
            return {**offsets(found), other: [*offsets(found)[other], -1]}

    found = run(main)
    (sought,) = [each for each in found.values() if each[-1] == -1]
    assert sought == [7, 8, 9, -1]


def test_what_is_paused_inside_is_kept_until_it_is_resumed() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with member(runtime) as reader:
            await all_at_once(reader)
            read = reader.batches()
            found = [await anext(read)]
            paused = TopicPartition("t", (found[0].partition + 1) % COUNT)
            reader.pause([paused])
            found += [await anext(read) for _ in range(2)]
            assert paused.partition not in offsets(found)
            assert await reader.poll(1.0) == []
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(read), 1.0)
            assert committed(reader.consumed())[paused.partition] == 0
            reader.resume([paused])
            found.append(await anext(read))
            return offsets(found)

    assert run(main) == ALL


def test_a_part_that_is_paused_in_the_middle_waits_for_the_next_reader() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime) as reader:
            await all_at_once(reader)
            begun = await anext(aiter(reader))
            reader.pause([(begun.topic, begun.partition)])
            others = [await anext(aiter(reader)) for _ in range(30)]
            assert begun.partition not in {each.partition for each in others}
            reader.resume()
            after = [await anext(aiter(reader)) for _ in range(9)]
            assert [(each.partition, each.offset) for each in after] == [
                (begun.partition, offset) for offset in range(1, 10)
            ]

    run(main)


@pytest.mark.parametrize("deserializer", [None, "string"])
def test_nothing_of_a_partition_comes_after_it_was_paused_inside(deserializer: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, value_deserializer=deserializer) as reader:
            await all_at_once(reader)
            read = aiter(reader)
            begun = [await anext(read) for _ in range(3)][-1]
            where = TopicPartition("t", begun.partition)
            reader.pause([where])
            assert committed(reader.consumed())[where.partition] == 3
            others = [await anext(read) for _ in range(30)]
            assert where.partition not in {each.partition for each in others}
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(read), 1.0)
            assert await reader.poll(1.0) == []
            assert committed(reader.consumed())[where.partition] == 3
            reader.resume([where])
            after = [await anext(read) for _ in range(7)]
            assert [(each.partition, each.offset) for each in after] == [
                (where.partition, offset) for offset in range(3, 10)
            ]

    run(main)


def test_whoever_pauses_at_the_last_record_of_a_part_has_been_given_it() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime) as reader:
            await all_at_once(reader)
            read = aiter(reader)
            last = [await anext(read) for _ in range(10)][-1]
            reader.pause([("t", last.partition)])
            assert committed(reader.consumed())[last.partition] == 10
            assert (await anext(read)).partition != last.partition

    run(main)


def test_after_an_assign_inside_nothing_of_other_partitions_comes() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime) as reader:
            await all_at_once(reader)
            read = reader.batches()
            part = await anext(read)
            kept = (part.partition + 2) % COUNT  # not the one that comes next anyway
            reader.assign([("t", kept)])
            part = await anext(read)
            assert (part.partition, part.offsets()) == (kept, list(range(10)))
            assert await reader.poll(1.0) == []

    run(main)


@pytest.mark.parametrize("reading", [aiter, Consumer.batches], ids=["records", "batches"])
def test_nothing_comes_while_what_goes_is_being_committed(reading: Any) -> None:
    """Others would be given it too, who go on where that commit says."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime) as reader:
            await reader.subscribe("t")
            read = reading(reader)
            await anext(read)
            world.cluster.silence.add(OffsetCommitRequest)
            assert reader.enforce_rebalance()
            while not _commits(world):
                await reader.poll(max_records=1)
                await asyncio.sleep(0.001)  # the simulation's time
            given = committed(reader.consumed())
            assert 0 < sum(given.values()) < 40
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(read), 1.0)
            assert committed(reader.consumed()) == given
            world.cluster.silence.clear()
            await anext(read)
            stored = {where[1]: offset for _, where, offset in world.cluster.groups.commits}
            assert stored == given
            assert await rest(reader, 40 - sum(committed(reader.consumed()).values()))

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1] * COUNT):
            fill(log, 10)
        world.run_client(main)


def _commits(world: ClientWorld) -> int:
    return sum(isinstance(each, OffsetCommitRequest) for _, each in world.cluster.requests)


@pytest.mark.parametrize("reading", [aiter, Consumer.batches], ids=["records", "batches"])
def test_nothing_comes_after_the_end_and_the_next_member_gets_what_was_not_given(
    reading: Any,
) -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        async with member(runtime) as reader:
            await reader.subscribe("t")
            async for each in reading(reader):
                is_one = isinstance(each, ConsumerRecord)
                found.setdefault(each.partition, []).extend(
                    [each.offset] if is_one else each.offsets()
                )
                await reader.aclose()
        assert sum(map(len, found.values())) == (1 if reading is aiter else 10)
        async with member(runtime) as reader:
            await reader.subscribe("t")
            parts = await rest(reader, 40 - sum(map(len, found.values())))
        for index, each in offsets(parts).items():
            found.setdefault(index, []).extend(each)
        return found

    assert run(main) == ALL


@pytest.mark.parametrize("reading", [aiter, Consumer.batches])
def test_who_waits_for_more_when_another_task_closes_has_come_to_the_end(
    reading: Callable[[Consumer], AsyncIterator[Any]],
) -> None:
    async def main(runtime: Runtime) -> int:
        reader = member(runtime)
        await reader.start()
        reader.assign([("t", 0)])

        async def count() -> int:
            return sum([len(getattr(each, "records", "1")) async for each in reading(reader)])

        counting = asyncio.create_task(count())
        await asyncio.sleep(5.0)
        assert not counting.done()
        await reader.aclose()
        return await counting

    assert run(main) == 10
