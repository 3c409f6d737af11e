"""Seeks and questions by time, and arguments of `poll` that make no sense."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.records import encode_batch
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.world import ClientWorld

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"max_records": 0}, ValueError, "max_records is at least 1, not int 0"),
        ({"max_records": -3}, ValueError, "max_records is at least 1, not int -3"),
        ({"max_records": "5"}, TypeError, "max_records is an int, not str '5'"),
        ({"max_records": True}, TypeError, "max_records is an int, not bool True"),
        ({"timeout_s": "3"}, TypeError, "timeout_s is a number of seconds, not str '3'"),
        ({"timeout_s": None}, TypeError, "timeout_s is a number of seconds, not None"),
        ({"timeout_s": -0.5}, ValueError, "timeout_s is not negative"),
        ({"timeout_s": float("nan")}, ValueError, "timeout_s is not negative"),
    ],
)
def test_a_poll_that_makes_no_sense_is_refused(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            reader.assign([T0])
            with pytest.raises(error, match=says):
                await reader.poll(**options)
            if "max_records" in options:
                with pytest.raises(error, match=says):
                    reader.batches(**options)
            assert await reader.poll(0, max_records=1) == []

    with ClientWorld() as world:
        world.run_client(main)


def test_a_time_before_1970_is_not_taken_for_an_end_of_the_log() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            reader.assign([T0])
            for at in (-1, -2, -7):
                with pytest.raises(ValueError, match="since 1970"):
                    await reader.seek_to_time(at)
                with pytest.raises(ValueError, match="since 1970"):
                    await reader.offsets_for_times({T0: at})
            await reader.seek_to_time(0)
            assert reader.position(("t", 0)) == 0

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


def test_an_end_that_cannot_be_asked_for_is_told_with_its_place() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        options = {"default_api_timeout_ms": 3000, "request_timeout_ms": 1000}
        async with consumer(runtime, **options) as reader:
            await reader.partitions("t")
            for name in ("b1", "b2"):
                world.nodes[name].crash()
            with pytest.raises(KafkaError) as caught:
                await reader.end_offsets([T0])
            return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        context = world.run_client(main).context
    assert (context["topic"], context["partition"]) == ("t", 0)


def test_a_record_that_comes_while_its_time_is_sought_is_read() -> None:
    """1. Nothing is as new. 2. A record comes. 3. The end is asked for, which is behind it."""
    asked: list[int] = []

    def on_request(_: int, request: Any) -> None:
        if isinstance(request, ListOffsetsRequest):
            asked.append(request.topics[0].partitions[0].timestamp)
            if asked[-2:] == [1000, -1]:
                log.put(encode_batch([(5000, None, b"10", ())]))

    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([T0])
            await read_all(reader, 10)
            await reader.seek_to_time(1000)
            return await read_all(reader, 1)

    with ClientWorld() as world:
        world.cluster.on_request = on_request
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        assert world.run_client(main) == {0: [10]}


def test_a_seek_of_partitions_of_which_one_goes_meanwhile_moves_none() -> None:
    async def main(runtime: Runtime) -> int:
        options = {"auto_offset_reset": "earliest", "max_poll_records": 5}
        async with consumer(runtime, **options) as reader:
            reader.assign([T0, T1])
            given = sum(len(each.records) for each in await reader.poll(5.0) if not each.partition)
            seeking = asyncio.create_task(reader.seek_to_end([T0, T1]))
            await asyncio.sleep(0)
            reader.assign([T0])
            with pytest.raises(KafkaError, match="not assigned"):
                await seeking
            return given + len((await read_all(reader, 20 - given))[0])

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 20)
        assert world.run_client(main) == 20


def test_commits_are_stored_in_the_order_of_their_beginning_also_when_one_is_tried_again() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", enable_auto_commit=False) as reader:
            reader.assign([T0])
            await read_all(reader, 10)
            world.cluster.lose_answers.add(OffsetCommitRequest)
            first = asyncio.create_task(reader.commit({T0: 5}))
            await asyncio.sleep(0.01)
            await reader.commit({T0: 10})
            assert first.done()

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
        assert [each[2] for each in world.cluster.groups.commits] == [5, 5, 10]


def test_a_commit_that_is_cancelled_is_not_tried_on_and_holds_up_no_other() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", enable_auto_commit=False) as reader:
            reader.assign([T0])
            await read_all(reader, 10)
            world.cluster.silence.add(OffsetCommitRequest)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.commit({T0: 5}), 1.0)
            world.cluster.silence.clear()
            await reader.commit({T0: 10})

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
        assert {each[2] for each in world.cluster.groups.commits} == {10}


def test_who_commits_while_the_consumer_is_closed_hears_why_it_was_not_stored() -> None:
    async def main(runtime: Runtime) -> None:
        reader = member(runtime, "eager", enable_auto_commit=False)
        await reader.start()
        reader.assign([T0])
        await read_all(reader, 10)
        world.cluster.silence.add(OffsetCommitRequest)
        commit = asyncio.create_task(reader.commit({T0: 5}))
        await asyncio.sleep(0.1)
        await reader.aclose(1.0)
        with pytest.raises(KafkaError, match="closed"):
            await commit

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("reason", ["x\ud800", 5])
def test_a_reason_that_no_message_has_place_for_is_refused_before_the_group_hears_of_it(
    reason: Any,
) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager") as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            with pytest.raises((TypeError, ValueError), match="reason is"):
                reader.enforce_rebalance(reason)
            assert await reader.poll(5.0) == []
            assert reader.group_metadata().generation == 1

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


def test_of_a_long_reason_the_group_hears_the_beginning() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager") as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            assert reader.enforce_rebalance("y" * 40000)
            assert await reader.poll(5.0) == []
            assert reader.group_metadata().generation == 2

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
