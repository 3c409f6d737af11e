"""Who asks for the next record or part is there, and serves his group before he has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from moldau.client import Consumer, ConsumerRecord, RebalanceListener, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.protocol.declare import Request
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.runtime import Runtime
from tests.client.consumer.fetched_partitions import all_at_once
from tests.client.consumer.group_consumer import PROTOCOLS, member
from tests.client.consumer.numbered_records import fill
from tests.client.world import ClientWorld

COUNT = 4
EACH = 10
READINGS = pytest.mark.parametrize("reading", [aiter, Consumer.batches], ids=["records", "batches"])
KINDS = pytest.mark.parametrize("kind", PROTOCOLS)
Reading = Callable[[Consumer], AsyncIterator[Any]]
Place = tuple[int, int]


def run(main: Callable[[Runtime, ClientWorld], Any]) -> Any:
    """Four partitions of ten records; the time that handlers take is the simulation's."""
    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1] * COUNT):
            fill(log, EACH)
        return world.run_client(lambda runtime: main(runtime, world))


class Told(RebalanceListener):
    """What happened to a member, in its order: what it was told of, and what it was given."""

    def __init__(self) -> None:
        self.story: list[tuple[str, Any]] = []

    def on_partitions_assigned(self, partitions: Any) -> None:
        self.story.append(("assigned", {each.partition for each in partitions}))

    def on_partitions_revoked(self, partitions: Any) -> None:
        self.story.append(("revoked", {each.partition for each in partitions}))

    def on_partitions_lost(self, partitions: Any) -> None:
        self.story.append(("lost", {each.partition for each in partitions}))

    def given(self, each: Any) -> list[Place]:
        found = places(each)
        self.story += [("given", place) for place in found]
        return found

    @property
    def all_given(self) -> list[Place]:
        return [what for kind, what in self.story if kind == "given"]

    def check(self) -> None:
        """Nothing was given that was not the member's."""
        owned: set[int] = set()
        for kind, what in self.story:
            if kind == "given":
                assert what[0] in owned, self.story
            else:
                owned = owned | what if kind == "assigned" else owned - what


def places(each: Any) -> list[Place]:
    if isinstance(each, ConsumerRecord):
        return [(each.partition, each.offset)]
    return [(each.partition, offset) for offset in each.offsets()]


async def work(reader: Consumer, told: Told, reading: Reading, *, slowly_s: float) -> None:
    await reader.subscribe("t", listener=told)
    async for each in reading(reader):
        told.given(each)
        await asyncio.sleep(slowly_s)


async def until(is_so: Callable[[], object], within_s: float = 120.0) -> None:
    for _ in range(round(within_s * 10)):
        if is_so():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not within {within_s} s")


async def ended(*tasks: asyncio.Task[None]) -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


EVERYTHING = [(index, offset) for index in range(COUNT) for offset in range(EACH)]


@KINDS
@READINGS
def test_a_member_that_is_slow_with_each_never_leaves(kind: str, reading: Reading) -> None:
    """Each takes less than `max.poll.interval.ms`, but more than half of it."""

    async def main(runtime: Runtime, _: ClientWorld) -> list[tuple[str, Any]]:
        told = Told()
        async with member(runtime, kind, max_poll_interval_ms=2000) as reader:
            working = asyncio.create_task(work(reader, told, reading, slowly_s=1.7))
            await until(lambda: len(told.all_given) == EACH * COUNT)
            await ended(working)
        return told.story

    kinds = [kind for kind, _ in run(main)]
    assert kinds == ["assigned", *["given"] * EACH * COUNT, "revoked"]


@KINDS
@READINGS
def test_a_rebalance_is_served_between_two_records(kind: str, reading: Reading) -> None:
    async def main(runtime: Runtime, _: ClientWorld) -> None:
        one, other = Told(), Told()
        async with member(runtime, kind) as first, member(runtime, kind) as second:
            slow = asyncio.create_task(work(first, one, reading, slowly_s=2.0))
            await until(lambda: one.all_given)
            quick = asyncio.create_task(work(second, other, reading, slowly_s=0.1))
            await until(lambda: other.story and other.story[-1][0] == "given", within_s=15.0)
            assert len(one.all_given) < EACH * COUNT / 2 or reading is not aiter
            await until(lambda: len(one.all_given + other.all_given) >= EACH * COUNT)
            await asyncio.sleep(10.0)
            await ended(slow, quick)
        assert sorted(one.all_given + other.all_given) == EVERYTHING
        one.check()
        other.check()
        assert "lost" not in {kind for kind, _ in one.story + other.story}

    run(main)


@KINDS
@READINGS
def test_after_a_loss_nothing_of_what_is_lost_comes(kind: str, reading: Reading) -> None:
    async def main(runtime: Runtime, _: ClientWorld) -> None:
        one, other = Told(), Told()

        async def hangs_once(reader: Consumer) -> None:
            await reader.subscribe("t", listener=one)
            async for each in reading(reader):
                one.given(each)
                await asyncio.sleep(20.0 if len(one.all_given) in (2, EACH) else 0.1)

        terms = {"max_poll_interval_ms": 3000}
        async with member(runtime, kind, **terms) as first, member(runtime, kind) as second:
            slow = asyncio.create_task(hangs_once(first))
            await until(lambda: one.all_given)
            quick = asyncio.create_task(work(second, other, reading, slowly_s=0.1))
            await asyncio.sleep(60.0)
            await ended(slow, quick)
        before = [kind for kind, _ in one.story].index("lost")
        kept = {what for kind, what in one.story[:before] if kind == "given"}
        assert kept.union(other.all_given) == set(EVERYTHING)
        assert len(one.all_given) == len(kept) == (2 if reading is aiter else EACH)
        one.check()

    run(main)


def stored(world: ClientWorld) -> dict[int, int]:
    return {where[1]: each for where, each in world.cluster.groups.offsets.get("g", {}).items()}


async def _work_until(
    reader: Consumer, in_hand: list[ConsumerRecord], goes_on: asyncio.Event
) -> None:
    async for record in reader:
        in_hand.append(record)
        await goes_on.wait()
        goes_on.clear()


def test_who_unsubscribes_beside_the_task_that_reads_leaves_what_that_has_at_hand() -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async with member(runtime, "eager") as reader:
            await reader.subscribe(["t"])
            in_hand: list[ConsumerRecord] = []
            working = asyncio.create_task(_work_until(reader, in_hand, asyncio.Event()))
            await until(lambda: in_hand)
            await reader.unsubscribe()
            assert stored(world)[in_hand[0].partition] == in_hand[0].offset
            await ended(working)

    run(main)


def test_a_second_task_that_reads_while_one_waits_is_an_error() -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async with member(runtime, "eager", enable_auto_commit=False) as reader:
            await all_at_once(reader)
            await reader.poll(max_records=EACH * COUNT)
            waiting = asyncio.create_task(reader.poll(5.0))
            await asyncio.sleep(0.1)
            for read in (reader.poll(), anext(aiter(reader)), anext(aiter(reader.batches()))):
                with pytest.raises(RuntimeError, match="another task polls this consumer"):
                    await read
            await ended(waiting)

    run(main)


def test_what_was_read_can_be_asked_of_a_closed_one_outside_a_loop() -> None:
    async def main(runtime: Runtime, _: ClientWorld) -> tuple[Consumer, ConsumerRecord]:
        async with member(runtime, "eager", enable_auto_commit=False) as reader:
            await all_at_once(reader)
            return reader, await anext(aiter(reader))

    reader, given = run(main)
    where = TopicPartition(given.topic, given.partition)
    assert reader.consumed()[where].offset == given.offset + 1


HEARTBEATS = (HeartbeatRequest, ConsumerGroupHeartbeatRequest)


@KINDS
@READINGS
def test_what_a_commit_finds_to_be_lost_is_not_given_while_a_heartbeat_has_no_answer(
    kind: str, reading: Reading
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        told = Told()
        async with member(runtime, kind, enable_auto_commit=False) as reader:
            working = asyncio.create_task(work(reader, told, reading, slowly_s=3.0))
            await until(lambda: told.all_given)
            hung = _without_answer(world, HEARTBEATS)
            await until(lambda: hung)
            world.cluster.groups.groups["g"].seats.clear()
            with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
                await reader.commit()
            await until(lambda: told.story[-1][0] == "lost", within_s=5.0)
            told.check()
            await ended(working)

    run(main)


def _without_answer(world: ClientWorld, kinds: tuple[type[Request], ...]) -> list[Request]:
    """Those of these kinds that came since."""
    groups, found = world.cluster.groups, list[Request]()
    handle = groups.handle

    def handle_others(node_id: int, request: Request, reply: Callable[[Any], None]) -> None:
        if isinstance(request, kinds):
            found.append(request)
        else:
            handle(node_id, request, reply)

    setattr(groups, "handle", handle_others)  # noqa: B010
    return found


@pytest.mark.parametrize("how", ["another loop", "poll", "waits"])
def test_in_one_task_who_reads_otherwise_is_done_with_what_he_had(how: str) -> None:
    async def main(runtime: Runtime, _: ClientWorld) -> None:
        async with member(runtime, "eager", enable_auto_commit=False) as reader:
            await all_at_once(reader)
            left = aiter(reader)
            first = await anext(left)
            if how == "poll":
                await reader.poll(max_records=1)
            elif how == "waits":
                await asyncio.wait_for(anext(left), 1.0)
                await asyncio.wait_for(anext(reader.batches(max_records=1)), 1.0)
            else:
                async for _each in reader:
                    break
            where = TopicPartition(first.topic, first.partition)
            assert reader.consumed()[where].offset == (3 if how == "waits" else 2)
            await anext(left)
            assert reader.consumed()[where].offset == (4 if how == "waits" else 3)

    run(main)


def test_a_loop_that_was_left_holds_nothing_back_though_its_task_lives_on() -> None:
    async def main(runtime: Runtime, _: ClientWorld) -> None:
        async with member(runtime, "eager", enable_auto_commit=False) as reader:
            await all_at_once(reader)
            async for first in reader:
                where = TopicPartition(first.topic, first.partition)
                break
            offset = await asyncio.create_task(_next_committed(reader, where))
            assert offset == 2

    run(main)


async def _next_committed(reader: Consumer, where: TopicPartition) -> int:
    await anext(aiter(reader))
    return reader.consumed()[where].offset
