"""A commit that is in trouble while its partitions are given up, and go to somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import PROTOCOLS, member
from tests.client.consumer.numbered_records import fill
from tests.client.consumer.unheard_commits import COUNT, Commits, Deaf, Seen, read_for, read_ten

PATIENCE_S = 60.0


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("how", ["is hers", "has come back", "has left"])
def test_it_does_not_undo_what_others_have_committed_since(kind: str, how: str) -> None:
    """1. A commits 5 and hears nothing. 2. B gets a partition, reads it to its end and commits
    that. 3. A tries again: while the partition is B's, or A's once more, or nobody's."""

    async def main(runtime: Runtime) -> None:
        options = {"enable_auto_commit": False, "request_timeout_ms": 5_000}
        async with member(runtime, kind, max_poll_records=5, **options) as first:
            await first.subscribe("t")
            await read_ten(first)
            world.unheard.add(first.member_id)
            commit = first.commit_soon()
            await asyncio.sleep(0.1)
            if how == "has left":
                await first.unsubscribe()
            async with member(runtime, kind, **options) as second:
                await second.subscribe("t")
                _, others = await asyncio.gather(
                    asyncio.sleep(0) if how == "has left" else read_for(first, runtime.clock, 30.0),
                    read_for(second, runtime.clock, 30.0),
                )
                await second.commit()
                world.unheard.clear()
                stored = dict(world.cluster.groups.offsets["g"])
                if how == "is hers":
                    await asyncio.gather(
                        read_for(first, runtime.clock, PATIENCE_S),
                        read_for(second, runtime.clock, PATIENCE_S),
                    )
            if how == "has left":
                await asyncio.sleep(PATIENCE_S)
            else:
                assert set(await read_for(first, runtime.clock, PATIENCE_S)).isdisjoint(others)
            assert set(stored.values()) == {COUNT}
            now = world.cluster.groups.offsets["g"]
            assert {where: now[where] for where in stored} == stored
            error = commit.exception()
            assert isinstance(error, KafkaError)
            assert (error.code, error.retriable) == (ErrorCode.ILLEGAL_GENERATION, False)
            assert "given up" in error.reason
            assert {"group", "topic", "partition", "offset"} <= error.context.keys()

    with Deaf() as world:
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("event", ["assigned", "revoked"])
def test_what_a_listener_begins_to_commit_is_stored(kind: str, event: str) -> None:
    async def main(runtime: Runtime) -> None:
        listener = Commits(event)
        options = {"enable_auto_commit": False}
        async with member(runtime, kind, **options) as first:
            listener.reader = first
            await first.subscribe("t", listener=listener)
            await read_ten(first)
            async with member(runtime, kind, **options) as second:
                await second.subscribe("t")
                await asyncio.gather(
                    read_for(first, runtime.clock, 10.0), read_for(second, runtime.clock, 10.0)
                )
            assert listener.commits
            assert [each.exception() for each in listener.commits] == [None] * len(listener.commits)
            assert set(world.cluster.groups.offsets["g"].values()) == {3}

    with Deaf() as world:
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_who_commits_after_each_poll_loses_no_commit_to_a_rebalance(kind: str) -> None:
    """Others come and go, and nothing else goes wrong."""

    async def main(runtime: Runtime) -> None:
        options = {"enable_auto_commit": False, "max_poll_records": 1}
        commits: list[asyncio.Task[None]] = []
        seen: Seen = []

        async def read_and_commit(reader: Consumer, seconds: float) -> None:
            until = runtime.clock.monotonic() + seconds
            while runtime.clock.monotonic() < until:
                for part in await reader.poll(0.2):
                    seen.extend((part.partition, offset) for offset in part.offsets())
                    commits.append(reader.commit_soon())
                await asyncio.sleep(0.01)

        async with member(runtime, kind, **options) as first:
            await first.subscribe("t")
            reading = asyncio.ensure_future(read_and_commit(first, 30.0))
            for _ in range(3):
                async with member(runtime, kind, **options) as second:
                    await second.subscribe("t")
                    await read_and_commit(second, 5.0)
                    await asyncio.wait(commits)
            await reading
            await asyncio.wait(commits)
        assert [each.exception() for each in commits if each.exception()] == []
        assert len(seen) == len(set(seen))

    with Deaf() as world:
        for log in world.cluster.topics["t"]:
            fill(log, 2000)
        world.run_client(main)


def test_a_poll_keeps_to_its_time_while_a_commit_of_what_goes_has_no_answer() -> None:
    async def main(runtime: Runtime) -> None:
        options = {"enable_auto_commit": False, "request_timeout_ms": 5_000}
        async with member(runtime, "eager", **options) as first:
            await first.subscribe("t")
            await read_ten(first)
            world.unheard.add(first.member_id)
            commit = first.commit_soon()
            assert first.enforce_rebalance()
            took = []
            while not commit.done():
                began = runtime.clock.monotonic()
                await first.poll(0.2)
                took.append(runtime.clock.monotonic() - began)
            assert max(took) < 0.25
            assert 4 < sum(took) < 12

    with Deaf() as world:
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_what_a_listener_commits_as_partitions_come_does_not_undo_what_others_commit_later(
    kind: str,
) -> None:
    """1. A's listener commits 3 as it is assigned both, and hears nothing. 2. One goes to B, which
    reads it to its end and commits that. 3. The coordinator hears of A again."""

    async def main(runtime: Runtime) -> None:
        listener = Commits("assigned")
        options = {"enable_auto_commit": False, "request_timeout_ms": 5_000}
        async with member(runtime, kind, max_poll_records=5, **options) as first:
            listener.reader = first
            world.is_unheard = lambda request: _offsets(request) == {3}
            await first.subscribe("t", listener=listener)
            while not listener.commits:
                await first.poll(0.1)
            async with member(runtime, kind, **options) as second:
                await second.subscribe("t")
                await asyncio.gather(
                    read_for(first, runtime.clock, 20.0), read_for(second, runtime.clock, 20.0)
                )
                await second.commit()
                stored = dict(world.cluster.groups.offsets["g"])
                assert set(stored.values()) == {COUNT}
                world.is_unheard = lambda request: False
                await asyncio.gather(
                    read_for(first, runtime.clock, 40.0), read_for(second, runtime.clock, 40.0)
                )
            now = world.cluster.groups.offsets["g"]
            assert {where: now[where] for where in stored} == stored

    with Deaf() as world:
        world.run_client(main)


def _offsets(request: OffsetCommitRequest) -> set[int]:
    return {each.committed_offset for topic in request.topics for each in topic.partitions}


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_poll_keeps_to_its_time_while_what_a_listener_commits_has_no_answer(kind: str) -> None:
    """And counts as one: nobody is thrown out for not polling while he polls. An eager member may
    be, as all others wait for it, and not for longer than `max.poll.interval.ms`."""

    async def main(runtime: Runtime) -> None:
        listener = Commits("revoked")
        options = {"enable_auto_commit": False, "max_poll_interval_ms": 10_000}
        async with member(runtime, kind, max_poll_records=5, **options) as first:
            listener.reader = first
            await first.subscribe("t", listener=listener)
            await read_ten(first)
            world.unheard.add(first.member_id)
            async with member(runtime, kind, **options) as second:
                await second.subscribe("t")
                other = asyncio.create_task(read_for(second, runtime.clock, 25.0))
                while not other.done():
                    began = runtime.clock.monotonic()
                    await first.poll(0.2)
                    assert runtime.clock.monotonic() - began < 0.3
                    assert first.member_id or kind == "eager"
                assert listener.commits

    with Deaf() as world:
        world.run_client(main)


class Ends(RebalanceListener):
    """Begins a commit, and ends the consumer's part."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.commits: list[asyncio.Task[None]] = []
        self.reader: Consumer

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.commits.append(self.reader.commit_soon(dict.fromkeys(partitions, 3)))
        await getattr(self.reader, self.how)()


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("how", ["unsubscribe", "aclose"])
def test_a_listener_may_begin_a_commit_and_end_it_all(kind: str, how: str) -> None:
    async def main(runtime: Runtime) -> None:
        listener = Ends(how)
        options = {"enable_auto_commit": False}
        async with member(runtime, kind, max_poll_records=5, **options) as first:
            listener.reader = first
            await first.subscribe("t", listener=listener)
            await read_ten(first)
            async with member(runtime, kind, **options) as second:
                await second.subscribe("t")
                with suppress(RuntimeError, KafkaError):  # nothing is chosen any more, or closed
                    while len(world.cluster.groups.offsets.get("g", {})) < 2:
                        await asyncio.gather(first.poll(0.2), second.poll(0.2))
            assert [each.exception() for each in listener.commits] == [None] * len(listener.commits)
            assert set(world.cluster.groups.offsets["g"].values()) == {3}

    with Deaf() as world:
        world.cluster.delay_s = 0.05
        world.run_client(main)


class Slow(RebalanceListener):
    """Takes its time."""

    is_inside = False
    calls = 0

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.is_inside = True
        await asyncio.sleep(1.0)
        self.is_inside = False
        self.calls += 1

    on_partitions_revoked = on_partitions_assigned


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_no_listener_is_at_work_between_two_polls(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        listener = Slow()
        async with member(runtime, kind) as first:
            await first.subscribe("t", listener=listener)
            async with member(runtime, kind) as second:
                await second.subscribe("t")
                other = asyncio.create_task(read_for(second, runtime.clock, 25.0))
                while not other.done():
                    await first.poll(0.2)
                    assert not listener.is_inside
                assert listener.calls >= 2

    with Deaf() as world:
        world.run_client(main)
