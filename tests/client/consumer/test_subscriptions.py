"""What a consumer is told to read: nothing, partitions, topics that match a pattern."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from moldau.client import Consumer, TopicPartition
from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.group.simulated_consumer import OPTIONS
from tests.client.world import ClientWorld

READINGS: dict[str, Callable[[Consumer], Any]] = {
    "poll": lambda reader: reader.poll(5.0),
    "records": lambda reader: anext(aiter(reader)),
    "batches": lambda reader: anext(reader.batches()),
}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


# Nothing is chosen


async def _is_told_at_once(runtime: Runtime, reader: Consumer, how: str) -> None:
    began = runtime.clock.monotonic()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"nothing is chosen.*subscribe.*assign"):
            await READINGS[how](reader)
    assert runtime.clock.monotonic() == began


@pytest.mark.parametrize("has_group", [True, False])
@pytest.mark.parametrize("how", READINGS)
def test_who_forgets_to_choose_what_to_read_is_told(how: str, has_group: bool) -> None:
    async def main(runtime: Runtime) -> None:
        options = {"group_id": "g"} if has_group else {}
        async with consumer(runtime, auto_offset_reset="earliest", **options) as reader:
            await _is_told_at_once(runtime, reader, how)
            reader.assign([T0])
            await read_all(reader, 10)
            reader.assign([])
            await _is_told_at_once(runtime, reader, how)
            reader.assign([T0])
            await reader.unsubscribe()
            await _is_told_at_once(runtime, reader, how)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("by_empty_list", [True, False])
def test_so_is_who_has_unsubscribed(kind: str, by_empty_list: bool) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            await (reader.subscribe([]) if by_empty_list else reader.unsubscribe())
            await _is_told_at_once(runtime, reader, "poll")
            await reader.subscribe("u")
            await read_all(reader, 10)

    with ClientWorld() as world:
        for name in "tu":
            fill(world.cluster.add_topic(name, [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("how", READINGS)
def test_another_task_may_choose_while_one_begins_to_read(how: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager") as reader:
            choosing = asyncio.create_task(reader.subscribe("t"))
            await READINGS[how](reader)
            await choosing

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("kind", OPTIONS)
def test_another_task_may_choose_anew_while_one_reads(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            choosing = asyncio.create_task(choose_anew(reader))
            async with asyncio.timeout(60.0):
                while not any(part.topic == "u" for part in await reader.poll(0.001)):
                    pass
            await choosing

    async def choose_anew(reader: Consumer) -> None:
        for _ in range(20):
            await reader.unsubscribe()
            await reader.subscribe("t")
            await asyncio.sleep(0.05)
        await reader.unsubscribe()
        await reader.subscribe("u")

    with ClientWorld() as world:
        for name in "tu":
            fill(world.cluster.add_topic(name, [1])[0], 10)
        world.run_client(main)


# Partitions


@pytest.mark.parametrize("how", ["assign", "assign nothing", "unsubscribe"])
@pytest.mark.parametrize("commits_by_itself", [True, False])
def test_what_was_read_by_hand_is_committed_when_others_are_assigned(
    commits_by_itself: bool, how: str
) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(
            runtime,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=commits_by_itself,
        ) as reader:
            reader.assign([T0, T1])
            await read_all(reader, 20)
            if how == "unsubscribe":
                await reader.unsubscribe()
            else:
                reader.assign([] if how == "assign nothing" else [T1])
            await asyncio.sleep(1.0)  # the simulation's time, and less than the interval of commits
            stored = {where: offset for _, where, offset in world.cluster.groups.commits}
            expected = {("t", 0): 10} if how == "assign" else {("t", 0): 10, ("t", 1): 10}
            assert stored == (expected if commits_by_itself else {})

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 10)
        world.run_client(main)


# Patterns


@pytest.mark.parametrize("excludes", [True, False])
def test_a_pattern_matches_whole_names_and_those_of_kafka_itself_only_if_told(
    excludes: bool,
) -> None:
    async def main(runtime: Runtime) -> list[frozenset[str]]:
        async with member(runtime, "eager", exclude_internal_topics=excludes) as reader:
            found = []
            for pattern in ("rx-a", "rx-.*", ".*"):
                await reader.subscribe(pattern=re.compile(pattern))
                found.append(reader.subscription)
            return found

    with ClientWorld() as world:
        for name in ("rx-a", "rx-ab", "a-rx-a", "__its_own"):
            world.cluster.add_topic(name, [1])
        world.cluster.internal_topics = {"__its_own"}
        mine = {"rx-a", "rx-ab", "a-rx-a"}
        whole = mine if excludes else mine | {"__its_own"}
        assert world.run_client(main) == [{"rx-a"}, {"rx-a", "rx-ab"}, whole]


def test_a_coordinator_hears_of_a_pattern_and_that_it_is_over() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "consumer", client_rack="r1") as reader:
            await reader.subscribe(pattern="u.*")
            await reader.poll(3.0)
            await reader.subscribe(["t"])
            await read_all(reader, 10)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
        beats = [
            each
            for _, each in world.cluster.requests
            if isinstance(each, ConsumerGroupHeartbeatRequest)
        ]
        regexes = [each.subscribed_topic_regex for each in beats]
        told = [each for each in regexes if each is not None]
        assert told == ["u.*", ""], "told once each, and the empty one is none"
        assert beats[0].rack_id == "r1"
        assert {each.rack_id for each in beats[1:]} == {None}


# Polling


@pytest.mark.parametrize("kind", ["eager", "cooperative"])
def test_a_poll_may_wait_for_longer_than_a_member_may_go_without_one(kind: str) -> None:
    """Though nothing wakes it meanwhile, neither a fetch nor a heartbeat."""

    async def main(runtime: Runtime) -> None:
        rarely = {"session_timeout_ms": 90_000, "heartbeat_interval_ms": 80_000}
        async with member(runtime, kind, max_poll_interval_ms=4000, **rarely) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            reader.pause()
            before = reader.member_id
            assert await reader.poll(60.0) == []
            assert (reader.member_id, reader.assignment) == (before, [T0])

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


# What is read


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("how", ["reset", "seek", "ask"])
def test_the_end_is_that_of_what_may_be_read(how: str, level: str) -> None:
    """The last stable offset, for who reads what is committed."""

    async def main(runtime: Runtime) -> int | None:
        async with consumer(runtime, isolation_level=level, auto_offset_reset="latest") as reader:
            reader.assign([T0])
            if how == "ask":
                return (await reader.end_offsets([T0]))[T0]
            if how == "seek":
                await reader.seek_to_end()
            await asyncio.sleep(1.0)  # the simulation's time
            return reader.position(("t", 0))

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 50)
        log.open_since = 30
        assert world.run_client(main) == (30 if level == "read_committed" else 50)


def test_who_seeks_with_an_epoch_hears_that_the_log_is_another_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, auto_offset_reset="latest") as reader:
            reader.assign([T0])
            reader.seek(("t", 0), 15, leader_epoch=0)
            return await read_all(reader, 20)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        log.truncate(10)
        world.cluster.move("t", 0, 2)
        fill(log, 20)
        assert world.run_client(main) == {0: list(range(10, 30))}
    assert "truncated" in caplog.text


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_leader_that_has_not_heard_of_a_later_one_is_not_asked_about_its_epoch(
    reset: str, caplog: pytest.LogCaptureFixture
) -> None:
    """1. Somebody reads up to 25 from a new leader, and commits that. 2. Who takes the partition
    over has older metadata. 3. The old leader has not heard of its end, and knows no such epoch."""

    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, auto_offset_reset=reset) as reader:
            reader.assign([T0])
            reader.seek(("t", 0), 25, leader_epoch=1)
            assert await reader.poll(0.5) == []
            assert reader.troubles()[T0].code is ErrorCode.UNKNOWN_LEADER_EPOCH
            return await read_all(reader, 15)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)

        def hears_of_it() -> None:
            world.cluster.move("t", 0, 2)
            fill(log, 30)

        world.after(1.0, hears_of_it)
        assert world.run_client(main) == {0: list(range(25, 40))}
    assert "truncated" not in caplog.text


@pytest.mark.parametrize("checks", [True, False])
def test_what_does_not_fit_its_checksum_is_damaged_unless_nobody_checks(checks: bool) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest", check_crcs=checks) as reader:
            reader.assign([T0])
            if checks:
                with pytest.raises(CorruptRecord):
                    await reader.poll(5.0)
            else:
                (part,) = await reader.poll(5.0)
                assert [each.value for each in part.records][-2:] == [b"8", b"x"]

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        log.batches[0][-2] = ord("x")
        world.run_client(main)
