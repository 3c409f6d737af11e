"""A consumer at its edges: what is given wrongly, before its start, after its end, and waits that
are given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from moldau.client import (
    ClientNotStarted,
    Consumer,
    ConsumerRecord,
    OffsetAndMetadata,
    PartitionRecords,
    TopicPartition,
)
from moldau.errors import CorruptRecord
from moldau.errors.codes import KafkaError
from moldau.link.cluster import Cluster
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP, ClientWorld
from tests.link.scripted_cluster import cluster


async def _use(call: Callable[[Any], Any], reader: Consumer) -> None:
    found = call(reader)
    if asyncio.iscoroutine(found):
        await found


# What is given wrongly

stored: Any = OffsetAndMetadata

WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "assign bytes": (lambda it: it.assign([(b"t", 0)]), "topic's name is a str"),
    "assign text": (lambda it: it.assign([("t", "0")]), "number is an int"),
    "assign a name": (lambda it: it.assign(["t0"]), "a partition is a TopicPartition"),
    "seek half": (lambda it: it.seek(("t", 0), 10.5), "offset is an int, not float 10.5"),
    "seek nothing": (lambda it: it.seek(("t", 0), None), "offset is an int, not None"),
    "seek epoch": (lambda it: it.seek(("t", 0), 1, leader_epoch="1"), "leader_epoch is an int"),
    "seek bytes": (lambda it: it.seek((b"t", 0), 1), "topic's name is a str"),
    "pause": (lambda it: it.pause([("t", "0")]), "number is an int"),
    "pause text": (lambda it: it.pause("t0"), "partitions are given as a list"),
    "resume": (lambda it: it.resume([("t", None)]), "number is an int"),
    "position": (lambda it: it.position(("t", "0")), "number is an int"),
    "time": (lambda it: it.seek_to_time(1.5), "timestamp_ms is an int"),
    "offsets": (lambda it: it.offsets_for_times({("t", 0): "x"}), "timestamp for t-0 is an int"),
    "ends": (lambda it: it.end_offsets([("t", "0")]), "number is an int"),
    "partitions": (lambda it: it.partitions(b"t"), "topic's name is a str"),
    "note": (lambda it: it.commit({("t", 0): stored(1, 5)}), "are a str, not int 5"),
    "epoch": (lambda it: it.commit({("t", 0): stored(1, "", "a")}), "_epoch is an int"),
    "subscribe bytes": (lambda it: it.subscribe([b"t"]), "topic's name is a str"),
    "subscribe one": (lambda it: it.subscribe(b"t"), "topics are given as a list"),
}


TOO_LARGE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "assign": (
        lambda it: it.assign([("t", 2**31)]),
        r"number is from 0 to 2\*\*31 - 1, .*topic='t'",
    ),
    "assign below": (lambda it: it.assign([("t", -1)]), "number is from 0 to"),
    "committed": (lambda it: it.committed([("t", 2**31)]), "number is from 0 to"),
    "seek": (
        lambda it: it.seek(("t", 0), 2**63),
        r"offset is from 0 to 2\*\*63 - 1, .*partition=0",
    ),
    "seek epoch": (
        lambda it: it.seek(("t", 0), 1, leader_epoch=2**31),
        "leader_epoch is from -1 to",
    ),
    "seek below": (lambda it: it.seek(("t", 0), 1, leader_epoch=-2), "leader_epoch is from -1 to"),
    "time": (lambda it: it.seek_to_time(2**63), "timestamp_ms is from 0 to"),
    "times": (lambda it: it.offsets_for_times({("t", 0): 2**63}), "for t-0 is from 0 to"),
    "offsets": (lambda it: it.offsets({("t", 0): -(2**63) - 1}), r"is from -\(2\*\*63\) to"),
    "commit": (lambda it: it.commit({("t", 0): 2**63}), "offset to commit is from 0 to"),
    "commit soon": (lambda it: it.commit_soon({("t", 0): 2**63}), "offset to commit is from 0 to"),
    "commit epoch": (
        lambda it: it.commit({("t", 0): OffsetAndMetadata(1, "", 2**31)}),
        "leader_epoch is from -1 to .*offset=1",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_of_the_wrong_kind_is_refused_at_the_call_and_breaks_nothing(what: str) -> None:
    _refused_at_the_call(what, WRONG[what], TypeError)


@pytest.mark.parametrize("what", TOO_LARGE)
def test_so_is_what_has_no_room_in_a_request(what: str) -> None:
    _refused_at_the_call(what, TOO_LARGE[what], ValueError)


def _refused_at_the_call(
    what: str, refused: tuple[Callable[[Any], Any], str], kind: type[Exception]
) -> None:
    call, words = refused

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g", auto_offset_reset="earliest") as reader:
            if not what.startswith("subscribe"):
                reader.assign([("t", 0)])
            with pytest.raises(kind, match=words):
                await _use(call, reader)
            reader.assign([("t", 0)])
            await read_all(reader, 10)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


def test_metadata_are_asked_for_again_after_what_nobody_foresaw() -> None:
    """A name that cannot be sorted among others, say: it is refused, and whatever else is raised is
    told to who waits, and to nobody after that."""

    async def main(runtime: Runtime) -> int:
        found = cluster(runtime)
        with pytest.raises(TypeError, match="topic's name is a str"):
            found.watch(["t", b"u"])  # type: ignore[list-item]
        assert await _names(found) == [], "nothing of it is watched"
        found.watch(["t"])
        bugs, reported = [ZeroDivisionError("a bug")], list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, facts: reported.append(facts))

        def fails_once() -> None:
            if bugs:
                raise bugs.pop()

        found.on_update = fails_once
        with pytest.raises(ZeroDivisionError, match="a bug"):
            await found.refresh()
        before = len(world.cluster.requests)
        await asyncio.sleep(1.0)
        assert len(world.cluster.requests) > before, "it was asked for again by itself"
        await found.refresh()
        await found.aclose()
        assert len(reported) == 1, "and not hushed up"
        return found.metadata.updates

    async def _names(found: Cluster) -> list[object]:
        await found.refresh()
        (*_, last) = [each for _, each in world.cluster.requests]
        assert isinstance(last, MetadataRequest)
        return [each.name for each in last.topics or ()]

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) >= 3


# Topics that match a pattern


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_is_deleted_is_not_made_again_by_who_subscribes_to_a_pattern(
    protocol: str,
) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(
            runtime, group_id="g", group_protocol=protocol, metadata_max_age_ms=500
        ) as reader:
            await reader.subscribe(pattern="t.*")
            await reader.poll(0.1)
            # As the coordinator's answer would have it read, which has no patterns here.
            reader._fetcher.read([TopicPartition("t", 0)], from_committed=True)
            await reader.poll(2.0)
            del world.cluster.topics["t"]
            for _ in range(2):
                with suppress(KafkaError):
                    await reader.poll(5.0)
            asked = [each for _, each in world.cluster.requests]
            made = [
                each
                for each in asked
                if isinstance(each, MetadataRequest)
                and each.topics != []
                and each.allow_auto_topic_creation
            ]
            assert made == []

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


# Before the start, and after the end

USES: dict[str, Callable[[Any], Any]] = {
    "poll": lambda it: it.poll(1.0),
    "anext": lambda it: anext(aiter(it)),
    "batches": lambda it: anext(it.batches()),
    "assign": lambda it: it.assign([("t", 0)]),
    "assignment": lambda it: it.assignment,
    "metrics": lambda it: it.metrics(),
    "subscribe": lambda it: it.subscribe(["t"]),
    "unsubscribe": lambda it: it.unsubscribe(),
    "subscription": lambda it: it.subscription,
    "seek": lambda it: it.seek(("t", 0), 1),
    "pause": lambda it: it.pause([("t", 0)]),
    "end_offsets": lambda it: it.end_offsets([("t", 0)]),
    "partitions": lambda it: it.partitions("t"),
    "list_topics": lambda it: it.list_topics(),
    "commit": lambda it: it.commit(),
    "committed": lambda it: it.committed([("t", 0)]),
    "troubles": lambda it: it.troubles(),
}
AFTER_THE_END = sorted(
    USES.keys() - {"anext", "batches", "assignment", "metrics", "subscription", "troubles"}
)


@pytest.mark.parametrize("what", USES)
def test_before_its_start_a_consumer_says_that_it_was_not_started(what: str) -> None:
    async def main() -> None:
        reader = Consumer(bootstrap_servers=BOOTSTRAP, group_id="g")
        for _ in range(2):
            with pytest.raises(ClientNotStarted, match=r"consumer is not started.*await start"):
                await _use(USES[what], reader)
        await reader.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("what", AFTER_THE_END)
def test_after_its_end_a_consumer_says_so_at_once(what: str) -> None:
    async def main(runtime: Runtime) -> None:
        reader = consumer(runtime, group_id="g")
        async with reader:
            reader.assign([("t", 0)])
            await reader.partitions("t")
        begun = runtime.clock.monotonic()
        with pytest.raises(KafkaError, match="closed"):
            await _use(USES[what], reader)
        assert runtime.clock.monotonic() == begun

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


def test_a_call_that_is_tried_again_ends_when_the_client_is_closed() -> None:
    async def main(runtime: Runtime) -> float:
        found = cluster(runtime)
        await found.refresh()
        asking = asyncio.ensure_future(found.topic("nowhere", timeout_s=60.0))
        await asyncio.sleep(10.0)  # between two tries lies about a second by now
        closed = runtime.clock.monotonic()
        await found.aclose()
        with pytest.raises(KafkaError, match="closed"):
            await asking
        return runtime.clock.monotonic() - closed

    for seed in range(5):
        with ClientWorld(seed) as world:
            assert world.run_client(main) < 0.01


# Waits that are given up


async def _given_up(read: AsyncIterator[Any]) -> None:
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(read), 0.7)


def _values(found: ConsumerRecord | PartitionRecords) -> list[bytes]:
    if isinstance(found, ConsumerRecord):
        return [found.value]
    return [each.value or b"" for each in found.records]


@pytest.mark.parametrize(
    "reading", [aiter, lambda reader: reader.batches()], ids=["records", "batches"]
)
def test_a_wait_for_more_may_be_given_up_and_loses_nothing(reading: Any) -> None:
    async def main(runtime: Runtime) -> list[bytes]:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            read = reading(reader)
            assert aiter(read) is read
            found: list[bytes] = []
            for count in (10, 20):
                await _given_up(read)
                fill(log, 10)
                while len(found) < count:
                    found += _values(await anext(read))
            await _given_up(read)
        with pytest.raises(StopAsyncIteration):
            await anext(read)
        return found

    with ClientWorld() as world:
        log: Log
        (log,) = world.cluster.add_topic("t", [1])
        assert world.run_client(main) == [b"%d" % n for n in range(20)]


def test_any_moment_to_give_up_in_loses_nothing() -> None:
    async def main(runtime: Runtime) -> list[bytes]:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            read = aiter(reader)
            found: list[bytes] = []
            while len(found) < 300:
                try:
                    async with asyncio.timeout(runtime.random.uniform(0.0, 0.003)):
                        while True:
                            found.append((await anext(read)).value)
                except TimeoutError:
                    await asyncio.sleep(runtime.random.uniform(0.0, 0.003))
            return found

    for seed in range(10):
        with ClientWorld(seed) as world:
            fill(world.cluster.add_topic("t", [1])[0], 300)
            assert world.run_client(main) == [b"%d" % n for n in range(300)]


def test_who_polls_on_whatever_is_raised_lets_others_have_their_turn() -> None:
    """A damaged batch is met by every poll until somebody seeks."""

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            with pytest.raises(CorruptRecord):
                await reader.poll(5.0)
            turns: list[int] = []
            other = asyncio.create_task(_count(turns))
            for _ in range(10):
                with pytest.raises(CorruptRecord):
                    await reader.poll(5.0)
            other.cancel()
            assert len(turns) >= 9
            late = asyncio.create_task(reader.poll(5.0))
            late.cancel()
            with suppress(asyncio.CancelledError):
                await late
            with pytest.raises(CorruptRecord):
                await reader.poll(5.0)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        log.batches[0][-1] ^= 0xFF
        world.run_client(main)


async def _count(turns: list[int]) -> None:
    while True:
        turns.append(len(turns))
        await asyncio.sleep(0)
