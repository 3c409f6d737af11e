"""What is committed at the end: by who closes or unsubscribes, also in the midst of a rebalance."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import pytest

from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.client.group.assignors import Assignment, Subscription, Topics
from moldau.client.group.assignors.sticky import CooperativeStickyAssignor
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import PROTOCOLS, member
from tests.client.consumer.numbered_records import fill
from tests.client.consumer.unheard_commits import Commits, Deaf, read_for, read_ten
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
            reader._group.member._assignors = {"cooperative-sticky": Fails()}
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
        if self.asks and self.reader.position(partitions[0]) is None:
            await asyncio.sleep(1.0)
            assert self.reader.position(partitions[0]) == 0
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
            reader.position(where)
        await asyncio.sleep(0.1)
