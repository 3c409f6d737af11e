"""What a user can say and ask of a consumer's membership, and who may poll."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.client.base.coordinator import GroupMetadata
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import PROTOCOLS, member
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.world import ClientWorld


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_member_knows_who_it_is(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind, group_instance_id="i") as reader:
            assert reader.group_metadata() == GroupMetadata("g", -1, "", "i")
            await reader.subscribe("t")
            await read_all(reader, 10)
            found = reader.group_metadata()
            ids = {TopicPartition("t", 0): world.cluster.ids["t"]}
            assert found == ("g", found.generation, reader.member_id, "i", ids)
            assert found.generation > 0
            assert found.member_id

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_what_is_committed_has_the_epoch_of_the_last_record(kind: str) -> None:
    """Who goes on there can find out whether the log is still the same."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.epoch = 7
        fill(log, 10)
        world.run_client(main)
        commits = [
            each for _, each in world.cluster.requests if isinstance(each, OffsetCommitRequest)
        ]
        (partition,) = commits[-1].topics[0].partitions
        assert (partition.committed_offset, partition.committed_leader_epoch) == (10, 7)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_who_goes_on_behind_what_is_gone_from_the_log_hears_of_it(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """1. Somebody reads up to 20, and commits that. 2. A leader is elected that has not more than
    10, and is written to. 3. Who went on at 20 would leave out the records between."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind) as reader:
            await reader.subscribe("t")
            await read_all(reader, 20)
        log.truncate(10)
        world.cluster.move("t", 0, 2)
        fill(log, 20)
        async with member(runtime, kind) as reader:
            await reader.subscribe("t")
            assert await read_all(reader, 20) == {0: list(range(10, 30))}

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        world.run_client(main)
    assert "truncated" in caplog.text


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_rebalance_can_be_asked_for_where_members_decide(kind: str) -> None:
    async def main(runtime: Runtime) -> tuple[bool, int]:
        async with member(runtime, kind) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            before = reader.group_metadata().generation
            is_possible = reader.enforce_rebalance("disks have come")
            for _ in range(10):
                await reader.poll(0.5)
            return is_possible, reader.group_metadata().generation - before

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        is_possible, generations = world.run_client(main)
        assert (is_possible, generations > 0) == (
            (False,) * 2 if kind == "consumer" else (True,) * 2
        )
        reasons = {
            each.reason for _, each in world.cluster.requests if isinstance(each, JoinGroupRequest)
        }
        assert ("disks have come" in reasons) is is_possible


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("knows_it", [True, False])
def test_offsets_that_a_transaction_may_change_are_never_taken_for_what_is_committed(
    isolation: str, knows_it: bool
) -> None:
    """Where the broker knows of such offsets (KIP-447)."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", isolation_level=isolation) as reader:
            reader.assign([("t", 0)])
            await read_all(reader, 10)
            await reader.committed()

    with ClientWorld() as world:
        if not knows_it:
            world.cluster.served[9] = Versions(5, 6)
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
        asked = [each for _, each in world.cluster.requests if isinstance(each, OffsetFetchRequest)]
        assert [each.require_stable for each in asked] == [knows_it] * 2


@pytest.mark.parametrize("pattern", ["a(", re.compile(b"a")])
def test_a_pattern_that_is_none_is_refused_with_what_is_wrong(pattern: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager") as reader:
            if isinstance(pattern, str):
                with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION") as caught:
                    await reader.subscribe(pattern=pattern)
                assert caught.value.context["pattern"] == pattern
                assert "unterminated subpattern" in caught.value.reason
            else:
                with pytest.raises(TypeError, match="a pattern is of str"):
                    await reader.subscribe(pattern=pattern)

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("kind", ["eager", "consumer"])
@pytest.mark.parametrize("instance", [None, "i"])
@pytest.mark.parametrize("leave_group", [None, True, False])
def test_who_closes_leaves_as_told(
    kind: str, instance: str | None, leave_group: bool | None
) -> None:
    async def main(runtime: Runtime) -> None:
        reader = member(runtime, kind, group_instance_id=instance)
        await reader.start()
        await reader.subscribe("t")
        await read_all(reader, 10)
        world.cluster.requests.clear()
        await reader.aclose(leave_group=leave_group)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
        said = [each for _, each in world.cluster.requests]
    leaves = instance is None if leave_group is None else leave_group
    if kind == "eager":
        assert any(isinstance(each, LeaveGroupRequest) for each in said) is leaves
        return
    epochs = [each.member_epoch for each in said if isinstance(each, ConsumerGroupHeartbeatRequest)]
    goes_for_a_while = instance is not None and leave_group is None
    assert (-1 in epochs, -2 in epochs) == (leaves, goes_for_a_while)


@pytest.mark.parametrize("kind", ["eager", "consumer"])
@pytest.mark.parametrize("commits_before", [False, True])
def test_closing_takes_the_time_it_has_once(kind: str, commits_before: bool) -> None:
    """For a commit before, for that of the end and for leaving together."""
    leaving = (LeaveGroupRequest, ConsumerGroupHeartbeatRequest)

    async def main(runtime: Runtime) -> float:
        reader = member(runtime, kind)
        await reader.start()
        await reader.subscribe("t")
        await read_all(reader, 10)
        world.cluster.silence |= {OffsetCommitRequest, *leaving}
        world.cluster.requests.clear()
        if commits_before:
            reader.commit_soon()
        begun = runtime.clock.monotonic()
        await reader.aclose(2.0)
        return runtime.clock.monotonic() - begun

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert 2.0 <= world.run_client(main) < 2.2
        said = {type(each) for _, each in world.cluster.requests}
        assert OffsetCommitRequest in said
        assert said & set(leaving), "the last commit leaves no time, but the group should know"


@pytest.mark.parametrize("fails", [True, False])
def test_what_a_handler_fails_at_is_not_committed_at_the_end(fails: bool) -> None:
    class Planted(Exception):
        pass

    async def main(runtime: Runtime) -> None:
        try:
            async with member(runtime, "eager") as reader:
                await reader.subscribe("t")
                async for record in reader:
                    if record.offset == 4:
                        if fails:
                            raise Planted
                        return
        except Planted:
            return

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
        stored = world.cluster.groups.offsets.get("g", {})
        assert stored == ({} if fails else {("t", 0): 5})


def test_two_tasks_cannot_poll_one_consumer_at_once() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_end()
            first = asyncio.ensure_future(reader.poll(20.0))
            await asyncio.sleep(1)
            with pytest.raises(RuntimeError, match="another task polls this consumer"):
                await reader.poll(1.0)
            first.cancel()
            await asyncio.wait([first])
            await reader.seek_to_beginning()
            return await read_all(reader, 10)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert world.run_client(main) == {0: list(range(10))}


def test_topics_can_be_listed() -> None:
    async def main(runtime: Runtime) -> dict[str, int]:
        async with consumer(runtime) as reader:
            return {each.name: len(each.partitions) for each in await reader.list_topics()}

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        world.cluster.add_topic("a", [1])
        assert world.run_client(main) == {"a": 1, "t": 2}


def test_without_a_group_there_is_no_membership() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            for call in (reader.group_metadata, reader.enforce_rebalance):
                with pytest.raises(KafkaError) as caught:
                    call()
                assert caught.value.context["setting"] == "group.id"

    with ClientWorld() as world:
        world.run_client(main)
