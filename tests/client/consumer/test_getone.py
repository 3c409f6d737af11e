"""`getone` and `getmany`, under the names that users of other clients know."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from moldau.client import ConsumerRecord, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.lifetime import ClientClosed
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import fill
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
            one = await reader.getone([T1])
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
            assert set(await reader.getmany([T1], timeout_s=5.0)) == {T1}
            assert set(await reader.getmany([T0], timeout_s=5.0, max_records=2)) == {T0}

    play(main)


def test_one_partition_alone_is_refused_with_the_list_to_write() -> None:
    async def main(runtime: Any) -> None:
        async with member(runtime, "eager") as reader:
            reader.assign([T0])
            for attempt in (reader.getone(T0), reader.getmany(T0)):
                with pytest.raises(TypeError, match=r"given as a list, \[TopicPartition"):
                    await attempt

    play(main)


@pytest.mark.parametrize("ask", ["getone", "getmany", "poll", "poll_batches", "batches"])
def test_a_partition_that_is_not_assigned_raises_as_a_seek_does(ask: str) -> None:
    async def main(runtime: Any) -> None:
        async with member(runtime, "eager") as reader:
            reader.assign([T0])
            with pytest.raises(KafkaError) as sought:
                reader.seek(T1, 0)
            with pytest.raises(KafkaError) as caught:
                await asyncio.wait_for(read(reader, ask, [T0, T1]), 5.0)
            assert str(caught.value) == str(sought.value)
            assert caught.value.context == {"topic": "t", "partition": 1}
            assert (await reader.getone([T0])).offset == 0

    play(main)


async def read(reader: Any, ask: str, partitions: list[TopicPartition]) -> None:
    if ask == "batches":
        await anext(reader.batches(partitions=partitions))
    else:
        timeout = {} if ask == "getone" else {"timeout_s": 60.0}
        await getattr(reader, ask)(partitions=partitions, **timeout)


def test_a_wait_for_a_partition_that_is_assigned_no_more_ends() -> None:
    async def main(runtime: Any) -> None:
        async with member(runtime, "eager") as reader:
            reader.assign([T0, T1])
            assert set(await reader.getmany([T1], timeout_s=5.0)) == {T1}
            waiting = asyncio.create_task(reader.getone([T1]))
            await asyncio.sleep(1.0)
            reader.assign([T0])
            with pytest.raises(KafkaError, match="not assigned to this consumer"):
                await asyncio.wait_for(waiting, 5.0)

    play(main)


@pytest.mark.parametrize("subscription", [{"topics": ["t"]}, {"pattern": re.compile("t.?")}])
def test_in_a_group_only_a_topic_that_is_not_subscribed_to_raises(subscription: Any) -> None:
    async def main(runtime: Any) -> None:
        async with member(runtime, "eager") as reader:
            await reader.subscribe(**subscription)
            assert (await reader.getone([T1])).partition == 1
            assert await reader.getmany([("t", 7)], timeout_s=2.0) == {}
            with pytest.raises(KafkaError) as caught:
                await asyncio.wait_for(reader.getone([("orders", 0)]), 5.0)
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert caught.value.reason == "the topic is not subscribed to"
            assert caught.value.context == {"topic": "orders", "partition": 0}

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
