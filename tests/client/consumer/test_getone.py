"""`getone` and `getmany`, under the names that users of other clients know."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import ConsumerRecord, TopicPartition
from moldau.link.lifetime import ClientClosed
from tests.client.consumer.test_consumer import fill
from tests.client.consumer.test_membership import member
from tests.client.world import ClientWorld

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def play(main: Any) -> ClientWorld:
    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 4, 4)
        world.run_client(main)
        return world


@pytest.mark.parametrize("deserializer", [None, bytes.decode])
def test_records_are_whole_in_every_configuration(deserializer: Any) -> None:
    async def main(runtime: Any) -> None:
        async with member(runtime, "eager", value_deserializer=deserializer) as reader:
            reader.assign([T0, T1])
            one = await reader.getone(T1)
            assert isinstance(one, ConsumerRecord)
            assert (one.topic, one.partition, one.offset) == ("t", 1, 0)
            found: dict[TopicPartition, list[ConsumerRecord]] = {}
            while sum(map(len, found.values())) < 7:
                for where, records in (await reader.getmany(timeout_s=5.0)).items():
                    found.setdefault(where, []).extend(records)
            assert [each.offset for each in found[T0]] == [0, 1, 2, 3]
            assert [each.offset for each in found[T1]] == [1, 2, 3]
            assert all(type(each) is ConsumerRecord for each in found[T0])
            assert {type(each.value) for each in found[T0]} == {str if deserializer else bytes}

    play(main)


def test_one_record_is_at_hand_until_the_next_is_asked_for() -> None:
    async def main(runtime: Any) -> None:
        async with member(runtime, "eager", auto_commit_interval_ms=100) as reader:
            reader.assign([T0])
            for _ in range(3):
                await reader.getone()
            await asyncio.sleep(1.0)
            found = await reader.committed([T0])
            assert found[T0] is not None
            assert found[T0].offset == 2

    assert play(main).cluster.groups.offsets["g"]["t", 0] == 3


def test_only_the_partitions_that_are_named_are_given() -> None:
    async def main(runtime: Any) -> None:
        async with member(runtime, "eager") as reader:
            reader.assign([T0, T1])
            assert set(await reader.getmany(T1, timeout_s=5.0)) == {T1}
            assert set(await reader.getmany(T0, timeout_s=5.0, max_records=2)) == {T0}

    play(main)


def test_a_wait_for_one_ends_with_the_consumer() -> None:
    async def main(runtime: Any) -> None:
        async with member(runtime, "eager") as reader:
            reader.assign([T0])
            await reader.getmany(timeout_s=5.0)
            waiting = asyncio.create_task(reader.getone())
            await asyncio.sleep(1.0)
            await reader.aclose()
            with pytest.raises(ClientClosed):
                await waiting

    play(main)
