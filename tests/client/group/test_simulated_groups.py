"""Whole consumers in a group, in virtual time, with a coordinator and a network that fail.

After every commit: somebody has worked on all records below it. At the end: all records were
worked on, and the group's offsets are the ends of the logs.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from moldau.client import (
    Consumer,
    ConsumerInterceptor,
    PartitionRecords,
    RebalanceListener,
    TopicPartition,
)
from moldau.client.group.assignors import RangeAssignor
from moldau.client.group.assignors.installed import OURS
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import fill
from tests.client.group.simulated_consumer import OPTIONS, consumer
from tests.client.world import BOOTSTRAP, ClientWorld

LOST = (
    FetchRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ConsumerGroupHeartbeatRequest,
)
PARTITIONS = 4
RECORDS = 400


class Story(ClientWorld):
    """Members that read a topic together."""

    def __init__(self, seed: int, kind: str) -> None:
        super().__init__(seed)
        self.kind = kind
        self.logs = self.cluster.add_topic("t", [1, 2] * (PARTITIONS // 2))
        self.worked_on: dict[int, set[int]] = defaultdict(set)
        self.cluster.groups.on_commit = self._committed
        self.is_over = False

    def _committed(self, where: tuple[str, int], offset: int) -> None:
        missing = set(range(offset)) - self.worked_on[where[1]]
        assert not missing, f"{where} was committed to {offset} without {sorted(missing)[:5]}"

    def is_read(self) -> bool:
        return all(len(self.worked_on[n]) == log.end for n, log in enumerate(self.logs))

    def add_member(self, name: str) -> None:
        random = self.random(name)

        async def main(runtime: Runtime) -> None:
            async with consumer(
                runtime, self.kind, auto_commit_interval_ms=200, max_poll_interval_ms=4000
            ) as reader:
                await reader.subscribe("t")
                while not self.is_over:
                    for part in await reader.poll(0.5, max_records=15):
                        await asyncio.sleep(random.uniform(0, 0.05))
                        if random.random() < 0.01:
                            await asyncio.sleep(6)  # longer than it may take
                        self.worked_on[part.partition].update(each.offset for each in part.records)

        self.add_node(name, main)

    def fail_for(self, seconds: float) -> None:
        random = self.random("faults")

        def fail() -> None:
            chosen = random.randrange(5)
            if chosen < 2:
                self.cluster.lose_answers.add(random.choice(LOST))
            elif chosen == 2:
                name = random.choice(("m1", "m2", "m3"))
                self.network.reset(name, random.choice(("b1", "b2")))
            elif chosen == 3:
                self.cluster.groups.coordinator = random.choice((1, 2))
            else:
                self.cluster.move("t", random.randrange(PARTITIONS), random.choice((1, 2)))
            if self.now < seconds:
                self.after(random.uniform(0.05, 0.5), fail)

        self.after(0.3, fail)


@pytest.mark.parametrize("kind", list(OPTIONS))
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_whatever_fails(seed: int, kind: str) -> None:
    with Story(seed, kind) as story:
        for log in story.logs:
            fill(log, RECORDS)
        for name in ("m1", "m2", "m3"):
            story.add_member(name)
        story.fail_for(20)
        story.run_until(story.is_read, within=120)
        # Who was thrown out at the very end has not committed: somebody else reads that again.
        stored = story.cluster.groups.offsets["g"]
        ends = {("t", n): RECORDS for n in range(PARTITIONS)}
        story.run_until(lambda: stored == ends, within=60)
        story.is_over = True


class Commits(RebalanceListener):
    """Commits what goes by hand, in the listener."""

    def __init__(self, reader: Consumer) -> None:
        self.reader = reader
        self.heard: list[str] = []

    async def on_partitions_revoked(self, partitions: Any) -> None:
        self.heard.append("revoked")
        await self.reader.commit()

    def on_partitions_assigned(self, partitions: Any) -> None:
        self.heard.append("assigned")

    def on_partitions_lost(self, partitions: Any) -> None:
        self.heard.append("lost")


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_listener_may_commit_until_the_very_end(kind: str) -> None:
    async def main(runtime: Runtime) -> list[str]:
        reader = consumer(runtime, kind, enable_auto_commit=False)
        async with reader:
            listener = Commits(reader)
            await reader.subscribe("t", listener=listener)
            count = 0
            while count < 40:
                count += sum(len(part.records) for part in await reader.poll(1.0))
            await reader.unsubscribe()
            assert reader.assignment == []
            await reader.subscribe("t", listener=listener)
            while not reader.assignment:
                await reader.poll(0.1)
        return listener.heard

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2]):
            fill(log, 20)
        heard = world.run_client(main)
        assert heard == ["assigned", "revoked", "assigned", "revoked"]
        assert world.cluster.groups.offsets["g"] == {("t", 0): 20, ("t", 1): 20}


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_poll_that_is_cancelled_cuts_no_listener_short(kind: str) -> None:
    class Slow(RebalanceListener):
        def __init__(self) -> None:
            self.done = 0

        async def on_partitions_assigned(self, partitions: Any) -> None:
            await asyncio.sleep(1.0)
            self.done += 1

    async def main(runtime: Runtime) -> int:
        listener = Slow()
        async with consumer(runtime, kind) as reader:
            await reader.subscribe("t", listener=listener)
            while not reader.assignment:
                try:
                    async with asyncio.timeout(0.3):
                        await reader.poll(10)
                except TimeoutError:
                    continue
            while not await reader.poll(1.0):
                pass
            return listener.done

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == 1


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_listener_that_raises_makes_poll_raise_and_the_member_goes_on(kind: str) -> None:
    class Bad(RebalanceListener):
        def on_partitions_assigned(self, partitions: Any) -> None:
            raise ValueError("no room for these")

    async def main(runtime: Runtime) -> int:
        async with consumer(runtime, kind) as reader:
            await reader.subscribe("t", listener=Bad())
            with pytest.raises(ValueError, match="no room"):
                await reader.poll(20)
            found: list[Any] = []
            while len(found) < 20:
                found += [each for part in await reader.poll(1.0) for each in part.records]
            return len(found)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == 20


class Broken(RangeAssignor):
    """Somebody's assignor with a bug."""

    @property
    def name(self) -> str:
        return "broken"

    def assign(self, topics: Any, members: Any) -> Any:
        raise ZeroDivisionError("no idea how to share")


def test_an_assignor_that_fails_is_told_by_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OURS, "broken", Broken)

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, "eager", partition_assignment_strategy="broken") as reader:
            await reader.subscribe("t")
            for _ in range(2):
                with pytest.raises(ZeroDivisionError, match="no idea"):
                    await reader.poll(20)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


def test_an_interceptor_sees_what_is_read_and_what_is_committed() -> None:
    class Counts(ConsumerInterceptor):
        def __init__(self) -> None:
            self.offsets: list[Any] = []

        def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
            return [part._replace(records=part.records[:1]) for part in parts]

        def on_commit(self, offsets: Any) -> None:
            self.offsets.append({where.partition: each.offset for where, each in offsets.items()})

    async def main(runtime: Runtime) -> list[Any]:
        counts = Counts()
        reader = Consumer(
            runtime=runtime,
            bootstrap_servers=BOOTSTRAP,
            group_id="g",
            auto_offset_reset="earliest",
            interceptors=[counts],
        )
        async with reader:
            await reader.subscribe("t")
            parts: list[PartitionRecords] = []
            while not parts:
                parts = await reader.poll(1.0)
            assert {len(part.records) for part in parts} == {1}
            await reader.commit()
            assert counts.offsets == [{0: parts[-1].next_offset}]
        return counts.offsets

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert len(world.run_client(main)) == 2, "closing commits too"


def test_what_cannot_be_is_said_at_once() -> None:
    async def main(runtime: Runtime) -> None:
        async with Consumer(runtime=runtime, bootstrap_servers=BOOTSTRAP) as alone:
            for call in (alone.commit(), alone.committed([("t", 0)])):
                with pytest.raises(KafkaError) as caught:
                    await call
                assert caught.value.code is ErrorCode.INVALID_GROUP_ID
                assert caught.value.context["setting"] == "group.id"
        async with consumer(runtime, "eager") as reader:
            with pytest.raises(ValueError, match="one of both"):
                await reader.subscribe()
            reader.assign([("t", 0)])
            with pytest.raises(ValueError, match="unsubscribe first"):
                await reader.subscribe("t")
            await reader.unsubscribe()
            await reader.subscribe("t")
            with pytest.raises(ValueError, match="unsubscribe first"):
                reader.assign([("t", 0)])
            with pytest.raises(KafkaError, match="no member"):
                await reader.commit({("t", 0): 1})

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


@pytest.mark.parametrize("kind", ["eager", "consumer"])
def test_who_assigns_by_hand_cannot_commit_beside_members(kind: str) -> None:
    """It never was one, so nothing is wrong with its handler."""

    async def main(runtime: Runtime) -> str:
        async with consumer(runtime, kind) as joined, consumer(runtime, kind) as alone:
            await joined.subscribe("t")
            while not joined.assignment:
                await joined.poll(1.0)
            alone.assign([("t", 0)])
            with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID") as caught:
                await alone.commit({("t", 0): 1})
            return caught.value.reason

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        reason = world.run_client(main)
        assert "the group has members" in reason
        assert "needs a group.id of its own" in reason
        assert "max.poll.interval.ms" not in reason


def test_by_hand_offsets_come_from_the_group_and_go_there() -> None:
    async def main(runtime: Runtime) -> list[int]:
        firsts = []
        for _ in range(3):
            async with consumer(runtime, "eager") as reader:
                reader.assign([("t", 0)])
                parts: list[Any] = []
                while not parts:
                    parts = await reader.poll(1.0, max_records=7)
                firsts.append(parts[0].records[0].offset)
        return firsts

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 50)
        assert world.run_client(main) == [0, 7, 14]


def test_offsets_are_asked_for_at_the_next_coordinator_when_one_has_gone() -> None:
    async def main(runtime: Runtime) -> int:
        where = TopicPartition("t", 0)
        async with consumer(runtime, "eager") as reader:
            await reader.commit({where: 7})
            world.cluster.groups.coordinator = 2
            world.nodes["b1"].crash()
            await asyncio.sleep(1)  # it has heard that the connection ended
            found = (await reader.committed([where], timeout_s=10.0))[where]
        assert found is not None
        return found.offset

    with ClientWorld() as world:
        world.cluster.add_topic("t", [2])
        assert world.run_client(main) == 7
