"""Polls keep to their time while offsets are committed: before partitions go, and by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from moldau.client import RebalanceListener, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import fill, read_all
from tests.client.world import ClientWorld

T0 = TopicPartition("t", 0)


class Heard(RebalanceListener):
    def __init__(self) -> None:
        self.told: list[str] = []

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append("revoked")

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append("assigned")


def test_a_poll_keeps_to_its_time_while_a_commit_before_a_rebalance_has_no_answer() -> None:
    async def main(runtime: Runtime) -> None:
        heard = Heard()
        async with member(runtime, "eager") as reader:
            await reader.subscribe("t", listener=heard)
            await read_all(reader, 10)
            fill(log, 10)
            world.cluster.silence.add(OffsetCommitRequest)
            world.cluster.requests.clear()
            assert reader.enforce_rebalance()
            for _ in range(40):
                began = runtime.clock.monotonic()
                assert await reader.poll(0.2) == [], "what goes is not read on"
                assert runtime.clock.monotonic() - began < 0.25
            assert heard.told == ["assigned"]
            assert asked(JoinGroupRequest) == 0, "it is committed before the member joins again"
            assert asked(OffsetCommitRequest) == 1
            world.cluster.silence.clear()
            found = await read_all(reader, 10, within_s=60.0)
            assert found == {0: list(range(10, 20))}, "the commit was stored after all"
            assert heard.told == ["assigned", "revoked", "assigned"]
            assert world.cluster.groups.commits[0][1:] == (("t", 0), 10)

    def asked(kind: type[Any]) -> int:
        return sum(isinstance(each, kind) for _, each in world.cluster.requests)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        world.run_client(main)


@pytest.mark.parametrize(
    ("timeout_s", "limit"), [(3, {"timeout_s": 3}), (None, {"setting": "default.api.timeout.ms"})]
)
def test_a_commit_that_gives_up_names_who_said_when(
    timeout_s: float | None, limit: dict[str, object]
) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", default_api_timeout_ms=8000) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            world.cluster.silence.add(OffsetCommitRequest)
            with pytest.raises(KafkaError) as caught:
                await reader.commit({T0: 5}, timeout_s=timeout_s)
            named = {"setting", "timeout_s"} & caught.value.context.keys()
            assert {name: caught.value.context[name] for name in named} == limit
            world.cluster.silence.clear()

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


def test_a_commit_before_a_rebalance_comes_before_those_that_are_begun_after_it() -> None:
    async def main(runtime: Runtime) -> list[int]:
        async with member(runtime, "eager") as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            world.cluster.lose_answers.add(OffsetCommitRequest)
            reader.enforce_rebalance()
            while not any(isinstance(each, OffsetCommitRequest) for _, each in requests):
                await reader.poll(0.001)
            await reader.commit({TopicPartition("t", 0): 7})
        return [offset for _, _, offset in world.cluster.groups.commits]

    with ClientWorld() as world:
        requests = world.cluster.requests
        fill(world.cluster.add_topic("t", [1])[0], 10)
        found = world.run_client(main)
        assert found.index(7) == 2, "behind the first, which was sent twice"


@pytest.mark.parametrize("is_subscribed", [True, False])
def test_a_consumer_that_is_closed_meanwhile_takes_no_longer_than_it_may(
    is_subscribed: bool,
) -> None:
    async def main(runtime: Runtime) -> float:
        heard = Heard()
        reader = member(runtime, "eager")
        await reader.start()
        if is_subscribed:
            await reader.subscribe("t", listener=heard)
        else:
            reader.assign([("t", 0)])
        await read_all(reader, 10)
        world.cluster.silence.add(OffsetCommitRequest)
        if is_subscribed:
            reader.enforce_rebalance()
        assert await reader.poll(2.0) == []
        began = runtime.clock.monotonic()
        await reader.aclose(3.0)
        assert heard.told == (["assigned", "revoked"] if is_subscribed else [])
        return runtime.clock.monotonic() - began

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert world.run_client(main) < 3.3


@pytest.mark.parametrize("by_parts", [False, True])
def test_who_works_long_on_the_records_of_one_poll_commits_what_is_behind_him(
    by_parts: bool,
) -> None:
    """Never the record, or part, at hand."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", auto_commit_interval_ms=5_000) as reader:
            await reader.subscribe("t")
            if by_parts:
                async for part in reader.batches(max_records=10):
                    await worked_on(part.records[-1].offset, 1.0)
                    if done[-1] == 199:
                        break
            else:
                async for record in reader:
                    await worked_on(record.offset, 0.1)
                    if record.offset == 199:
                        break
            began = runtime.clock.monotonic()
            polls_before.append(began)

    async def worked_on(offset: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        done.append(offset)

    def stored(where: tuple[str, int], offset: int) -> None:
        assert offset <= (done[-1] + 1 if done else 0), "nobody was done with that"
        times.append(asyncio.get_running_loop().time())

    done: list[int] = []
    times: list[float] = []
    polls_before: list[float] = []
    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 200)
        world.cluster.groups.on_commit = stored
        world.run_client(main)
        assert 4 <= len(times) <= 6, "every five of twenty seconds, and at the end"
        assert all(4.9 < after - before < 5.2 for before, after in pairwise(times[:-1]))


def test_what_a_poll_gave_is_not_committed_while_it_is_worked_on() -> None:
    """Also when the records before it were gone through one by one."""

    async def main(runtime: Runtime) -> list[int]:
        async with member(runtime, "eager", auto_commit_interval_ms=1_000) as reader:
            await reader.subscribe("t")
            async for record in reader:
                if record.offset == 10:
                    break
            await reader.poll(1.0)
            assert reader.position(("t", 0)) == 30
            await asyncio.sleep(10.0)
            return [offset for _, _, offset in world.cluster.groups.commits]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 30)
        assert max(world.run_client(main), default=0) <= 11


def test_what_was_done_is_committed_while_a_poll_waits_for_more() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", auto_commit_interval_ms=5_000) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            await reader.poll(8.0)
            assert world.cluster.groups.offsets["g"] == {("t", 0): 10}

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("gives_up", ["timeout", "cancel"])
def test_no_commit_passes_those_before_one_that_gave_up(gives_up: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", enable_auto_commit=False) as reader:
            reader.assign([T0])
            await read_all(reader, 10)
            world.cluster.lose_answers.add(OffsetCommitRequest)
            first = reader.commit_soon({T0: 5})
            await asyncio.sleep(0.01)
            if gives_up == "timeout":
                with pytest.raises(KafkaError, match="the commit before this one"):
                    await reader.commit({T0: 7}, timeout_s=0.02)
            else:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.commit({T0: 7}), 0.02)
            assert not first.done()
            await asyncio.gather(first, reader.commit_soon({T0: 10}))

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
        assert [offset for *_, offset in world.cluster.groups.commits] == [5, 5, 10]
