"""What is committed at the end: by who closes or unsubscribes, also in the midst of a rebalance."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import pytest

from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.client.assignors import Assignment, Subscription, Topics
from moldau.client.assignors.sticky import CooperativeStickyAssignor
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.test_consumer import fill
from tests.client.test_consumer_given_up import Commits, Deaf, read_for, read_ten
from tests.client.test_consumer_membership import PROTOCOLS, member
from tests.client.world import ClientWorld

How = Literal["aclose", "unsubscribe"]


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("fails", [False, True])
def test_what_was_begun_is_stored_before_it_is_closed(kind: str, fails: bool) -> None:
    """A program that fails does not commit what it is not done with; what it has said, it has."""

    async def main(runtime: Runtime) -> None:
        with suppress(ZeroDivisionError):
            async with member(runtime, kind, max_poll_records=5) as reader:
                await reader.subscribe("t")
                await read_ten(reader)
                commit = reader.commit_soon(dict.fromkeys(reader.assignment, 4))
                if fails:
                    raise ZeroDivisionError
        assert commit.done()
        assert commit.exception() is None
        assert set(world.cluster.groups.offsets["g"].values()) == {4 if fails else 5}

    with Deaf() as world:
        world.cluster.delay_s = 0.05
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_what_a_listener_begins_to_commit_as_it_is_closed_is_stored(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        listener = Commits("revoked")
        options = {"enable_auto_commit": False}
        async with member(runtime, kind, max_poll_records=5, **options) as reader:
            listener.reader = reader
            await reader.subscribe("t", listener=listener)
            await read_ten(reader)
        assert [each.exception() for each in listener.commits] == [None]
        assert set(world.cluster.groups.offsets["g"].values()) == {3}

    with Deaf() as world:
        world.cluster.delay_s = 0.05
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_what_has_no_answer_ends_with_the_close(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind, enable_auto_commit=False) as reader:
            await reader.subscribe("t")
            await read_ten(reader)
            world.unheard.add(reader.member_id)
            commits = [reader.commit_soon() for _ in range(3)]
            waiting = [asyncio.create_task(reader.commit()) for _ in range(3)]
            waiting += commits
            began = runtime.clock.monotonic()
            await reader.aclose(1.0)
            assert 1.0 <= runtime.clock.monotonic() - began < 1.5
            for each in waiting:
                with pytest.raises(KafkaError, match="closed meanwhile"):
                    await each

    with Deaf() as world:
        world.run_client(main)


def test_who_is_cut_off_at_once_as_he_closes_has_begun_to_commit() -> None:
    async def main(runtime: Runtime) -> None:
        reader = member(runtime, PROTOCOLS[0])
        await reader.start()
        reader.assign([("t", 0)])
        await reader.poll(5.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.0):
                await reader.aclose()
        await asyncio.sleep(1.0)
        assert world.cluster.groups.offsets["g"] == {("t", 0): 10}

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("how", ["aclose", "unsubscribe"])
@pytest.mark.parametrize("options", [{}, {"group_instance_id": "a"}], ids=["dynamic", "static"])
def test_all_that_was_read_is_committed_though_others_come_just_then(
    kind: str, how: How, options: dict[str, str]
) -> None:
    """Whatever it is doing in its group at that moment."""
    for seed in range(12):
        with ClientWorld(seed) as world:
            for log in world.cluster.add_topic("t", [1, 1, 1]):
                fill(log, 2_000)
            world.cluster.delay_s = 0.02
            world.run_client(partial(_ends, world, kind, how, options))


async def _ends(
    world: ClientWorld, kind: str, how: How, options: dict[str, str], runtime: Runtime
) -> None:
    rng = random.Random(world.seed)
    often = {} if kind == "consumer" else {"heartbeat_interval_ms": 200}
    late = {"auto_commit_interval_ms": 100_000}
    clock = runtime.clock
    async with member(runtime, kind, max_poll_records=5, **often, **late, **options) as reader:
        await reader.subscribe("t")
        await read_for(reader, clock, 1.0)
        others = [
            asyncio.create_task(_other(runtime, kind, rng.random() * most_s, often))
            for most_s in (0.3, 0.6)
        ]
        await read_for(reader, clock, 0.2 + rng.random())
        await reader.poll(0.0)
        read = {where: each.offset for where, each in reader.consumed().items()}
        await getattr(reader, how)()
        stored = world.cluster.groups.offsets.get("g", {})
        missing = {where: each for where, each in read.items() if each > stored.get(where, 0)}
        assert not missing, (missing, stored)
        for each in others:
            each.cancel()
        await asyncio.wait(others)


async def _other(runtime: Runtime, kind: str, at_s: float, often: dict[str, Any]) -> None:
    await asyncio.sleep(at_s)
    async with member(runtime, kind, enable_auto_commit=False, **often) as reader:
        await reader.subscribe("t")
        while True:
            await reader.poll(0.02, max_records=1)


class Fails(CooperativeStickyAssignor):
    """Whatever is to be shared out."""

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        raise ZeroDivisionError


@pytest.mark.parametrize("how", ["aclose", "unsubscribe"])
@pytest.mark.parametrize("hears_of_it", [True, False])
def test_who_cannot_share_partitions_out_ends_all_the_same(how: How, hears_of_it: bool) -> None:
    """Also when the user has heard of it, and polls no more: the group would wait for the member,
    and the member's last commit for the group."""

    async def main(runtime: Runtime) -> None:
        often = {"heartbeat_interval_ms": 200}
        async with member(runtime, "cooperative", max_poll_records=5, **often) as reader:
            await reader.subscribe("t")
            await read_ten(reader)
            reader._group._session.member._assignors = {"cooperative-sticky": Fails()}
            reader.enforce_rebalance()
            with suppress(ZeroDivisionError):
                await read_for(reader, runtime.clock, 5.0 if hears_of_it else 0.25)
            began = runtime.clock.monotonic()
            await getattr(reader, how)()
            assert runtime.clock.monotonic() - began < 5.0
            await asyncio.sleep(1.0)
            left = [
                each for _, each in world.cluster.requests if isinstance(each, LeaveGroupRequest)
            ]
            assert len(left) == 1

    with Deaf() as world:
        world.cluster.delay_s = 0.05
        world.run_client(main)


class Decides(RebalanceListener):
    """Where reading begins, by a commit, when it has looked that up."""

    def __init__(self, asks: bool, takes_s: float) -> None:
        self.asks, self.takes_s = asks, takes_s
        self.reader: Consumer

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        await asyncio.sleep(self.takes_s)
        if self.asks and self.reader.position(*partitions[0]) is None:
            await asyncio.sleep(1.0)
            assert self.reader.position(*partitions[0]) == 0
        await self.reader.commit(dict.fromkeys(partitions, 30))


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize(("asks", "takes_s"), [(False, 0.5), (False, 100.0), (True, 0.5)])
def test_a_listener_decides_by_a_commit_where_reading_begins(
    kind: str, asks: bool, takes_s: float
) -> None:
    """As in Java, where positions are looked up when it has returned, whoever wants to know them
    before. Unless it is the listener: nothing waits for itself."""

    async def main(runtime: Runtime) -> None:
        listener = Decides(asks, takes_s)
        async with member(runtime, kind, enable_auto_commit=False) as reader:
            listener.reader = reader
            await reader.subscribe("t", listener=listener)
            watching = asyncio.create_task(_watch(reader))
            seen = await read_for(reader, runtime.clock, takes_s + 3.0)
            watching.cancel()
            assert min(offset for _, offset in seen) == (0 if asks else 30)
            assert set(world.cluster.groups.offsets["g"].values()) == {30}

    with Deaf() as world:
        world.run_client(main)


async def _watch(reader: Consumer) -> None:
    """As a program does that shows where it is."""
    while True:
        for where in reader.assignment:
            reader.position(*where)
        await asyncio.sleep(0.1)


Reads = Literal["for", "batches", "poll"]


async def _work(reader: Consumer, reads: Reads, handled: list[int], hangs_at: int) -> None:
    """Handles one record after the other, and has one in hand without end."""

    async def handle(offset: int) -> None:
        if offset == hangs_at:
            await asyncio.sleep(1_000.0)
        handled.append(offset)

    if reads == "for":
        async for record in reader:
            await handle(record.offset)
    if reads == "batches":
        async for part in reader.batches():
            for each in part.records:
                await handle(each.offset)
    while reads == "poll":
        for part in await reader.poll(1.0):
            for each in part.records:
                await handle(each.offset)


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("how", ["aclose", "unsubscribe"])
@pytest.mark.parametrize(("reads", "stored"), [("for", 12), ("batches", 10), ("poll", 10)])
@pytest.mark.parametrize("is_done", [False, True])
def test_what_a_cancelled_task_has_in_hand_is_not_committed(
    kind: str, how: How, reads: Reads, stored: int, is_done: bool
) -> None:
    """As a server ends: it cancels the task that reads, waits for it, and closes. Where that one
    only waited for more, it was done with all."""

    async def main(runtime: Runtime) -> None:
        handled: list[int] = []
        options = {"max_poll_records": 5, "auto_commit_interval_ms": 100_000}
        async with member(runtime, kind, **options) as reader:
            await reader.subscribe("t")
            hangs_at = -1 if is_done else 12
            task = asyncio.create_task(_work(reader, reads, handled, hangs_at))
            await asyncio.sleep(10.0)
            task.cancel()
            await asyncio.wait([task])
            await getattr(reader, how)()
        assert handled == list(range(20 if is_done else 12))
        found = world.cluster.groups.offsets["g"]
        assert list(found.values()) == [20 if is_done else stored]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_what_a_cancelled_task_has_committed_of_a_poll_is_not_taken_back(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        async def work() -> None:
            for part in await reader.poll(10.0):
                await reader.commit({(part.topic, part.partition): 3})
                await asyncio.sleep(1_000.0)

        async with member(runtime, kind, max_poll_records=5) as reader:
            await reader.subscribe("t")
            task = asyncio.create_task(work())
            await asyncio.sleep(20.0)
            task.cancel()
            await asyncio.wait([task])
        assert list(world.cluster.groups.offsets["g"].values()) == [3]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("reads", ["for", "poll"])
def test_who_seeks_past_what_a_cancelled_task_has_in_hand_does_not_go_back(
    kind: str, reads: Reads
) -> None:
    async def main(runtime: Runtime) -> None:
        options = {"max_poll_records": 20, "auto_commit_interval_ms": 1_000}
        async with member(runtime, kind, **options) as reader:
            await reader.subscribe("t")
            task = asyncio.create_task(_work(reader, reads, [], 12))
            await asyncio.sleep(20.0)
            task.cancel()
            await asyncio.wait([task])
            reader.seek("t", 0, 13)
        assert list(world.cluster.groups.offsets["g"].values()) == [13]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


@pytest.mark.parametrize("how", ["finally", "unmoved"])
@pytest.mark.parametrize(("hangs_at", "stored"), [(12, 12), (-1, 20)])
def test_who_is_cancelled_and_closes_himself_or_ends_in_peace_is_not_done(
    how: Literal["finally", "unmoved"], hangs_at: int, stored: int
) -> None:
    """Unless he only waited for more."""

    async def main(runtime: Runtime) -> None:
        async def work() -> None:
            try:
                await _work(reader, "for", [], hangs_at)
            except asyncio.CancelledError:
                if how == "finally":
                    await reader.aclose()

        reader = member(runtime, PROTOCOLS[0], auto_commit_interval_ms=100_000)
        await reader.start()
        await reader.subscribe("t")
        task = asyncio.create_task(work())
        await asyncio.sleep(10.0)
        task.cancel()
        await task
        await reader.aclose()
        assert list(world.cluster.groups.offsets["g"].values()) == [stored]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


def test_who_was_to_be_cancelled_before_he_read_is_done_with_what_he_leaves() -> None:
    """As a task that has taken note of it, and reads what is left."""

    async def main(runtime: Runtime) -> None:
        async def work() -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1_000.0)
            async for record in reader:
                if record.offset == 12:
                    break
            await reader.aclose()

        async with member(runtime, PROTOCOLS[0], auto_commit_interval_ms=100_000) as reader:
            await reader.subscribe("t")
            task = asyncio.create_task(work())
            await asyncio.sleep(1.0)
            task.cancel()
            await task
        assert list(world.cluster.groups.offsets["g"].values()) == [13]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


@pytest.mark.parametrize("reads", ["for", "batches"])
def test_who_is_cancelled_as_he_gives_way_has_asked_for_the_next(reads: Reads) -> None:
    async def main(runtime: Runtime) -> None:
        async def work() -> None:
            stream = reader if reads == "for" else reader.batches(max_records=1)
            async for each in stream:
                await asyncio.sleep(0.02)  # so the rest of the loop is to have its turn
                if (each if reads == "for" else each.records[0]).offset == 12:
                    asyncio.get_running_loop().call_soon(task.cancel)

        async with member(runtime, PROTOCOLS[0], auto_commit_interval_ms=100_000) as reader:
            await reader.subscribe("t")
            task = asyncio.create_task(work())
            await asyncio.wait([task])
            assert task.cancelled()
        assert list(world.cluster.groups.offsets["g"].values()) == [13]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


def test_what_a_task_was_cancelled_committing_is_tried_again_at_the_close() -> None:
    """Else what it was done with before that would not be committed either."""

    async def main(runtime: Runtime) -> None:
        async def work() -> None:
            async for record in reader:
                if record.offset == 12:
                    world.cluster.silence.add(OffsetCommitRequest)
                    await reader.commit()

        async with member(runtime, PROTOCOLS[0], auto_commit_interval_ms=100_000) as reader:
            await reader.subscribe("t")
            task = asyncio.create_task(work())
            await asyncio.sleep(10.0)
            task.cancel()
            await asyncio.wait([task])
            world.cluster.silence.clear()
        assert list(world.cluster.groups.offsets["g"].values()) == [13]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


def test_a_task_that_has_read_a_consumer_keeps_nothing_of_it() -> None:
    """Though it lives on, and reads one after the other."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime, PROTOCOLS[0]) as reader:
            reader.assign([("t", 0)])
            await reader.poll(1.0)
        kept = weakref.ref(vars(reader).pop("_readers"))
        gc.collect()
        assert kept() is None

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)
