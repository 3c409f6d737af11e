"""Where partitions begin is found out for each by itself: what keeps one waiting keeps no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.client import Consumer, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Request
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.scripted import Log
from tests.client.world import ClientWorld

SOON_S = 0.5
HEALTHY = {0, 1, 2}
ILL = {TopicPartition("t", 3), TopicPartition("t", 4), TopicPartition("t", 5)}


class Halves(ClientWorld):
    """`t` has three partitions at each broker; the last three are those that something keeps from
    being read."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.logs: list[Log] = self.cluster.add_topic("t", [1, 1, 1, 2, 2, 2])
        for log in self.logs:
            fill(log, 10)

    def leave_leaderless(self) -> None:
        for index in (3, 4, 5):
            self.cluster.move("t", index, -1)

    def cut_off(self) -> None:
        self.network.partition(["client1"], ["b2"])


async def _read_soon(runtime: Runtime, reader: Consumer) -> None:
    """All that can be read is read well within a second."""
    begun = runtime.clock.monotonic()
    found = await read_all(reader, 30)
    assert found.keys() == HEALTHY
    assert runtime.clock.monotonic() - begun < SOON_S


KEEPING: dict[str, Callable[[Halves], None]] = {
    "no leader": Halves.leave_leaderless,
    "a broker that is away": Halves.cut_off,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", KEEPING)
def test_healthy_partitions_are_read_at_once_beside_others(how: str, seed: int) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            where = await reader.partitions("t")
            KEEPING[how](world)
            reader.assign(where)
            await _read_soon(runtime, reader)
            await reader.poll(20.0)
            troubles = reader.troubles()
            assert troubles.keys() == ILL, "and nobody else is blamed"
            for each, error in troubles.items():
                assert (error.context["topic"], error.context["partition"]) == each

    with Halves(seed) as world:
        world.run_client(main)


def test_what_is_assigned_while_a_broker_is_asked_that_is_away_does_not_wait_for_it() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            await reader.partitions("t")
            world.cut_off()
            reader.assign(sorted(ILL))
            assert await reader.poll(1.0) == []
            reader.assign([("t", index) for index in range(6)])
            await _read_soon(runtime, reader)

    with Halves(1) as world:
        world.run_client(main)


@pytest.mark.parametrize("seed", range(4))
def test_what_has_no_leader_when_it_is_first_heard_of_holds_up_nobody(seed: int) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", index) for index in range(6)])
            await _read_soon(runtime, reader)
            for index in (3, 4, 5):
                world.cluster.move("t", index, 1)
            found = await read_all(reader, 30, within_s=3.0)
            assert found.keys() == {3, 4, 5}
            await reader.poll(0.0)
            assert reader.troubles() == {}

    with Halves(seed) as world:
        world.leave_leaderless()
        world.run_client(main)


def test_a_partition_that_there_is_not_holds_up_nobody_and_is_told_after_a_while() -> None:
    async def main(runtime: Runtime) -> float:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("other", 99), *[("t", index) for index in range(3)]])
            await _read_soon(runtime, reader)
            for _ in range(2):  # looked for on, and told again
                with pytest.raises(KafkaError, match="no such partition") as caught:
                    await reader.poll(60.0)
                assert caught.value.context["topic"] == "other"
                assert caught.value.context["partition"] == 99
            return runtime.clock.monotonic()

    with Halves(1) as world:
        world.cluster.add_topic("other", [1])
        assert 10.0 < world.run_client(main) < 13.0


def _change(world: Halves, asked: type[Request], change: Callable[[Any], None]) -> None:
    """The coordinator's answers to such requests are changed on their way."""
    groups = world.cluster.groups
    answer = groups.handle

    def handle(node_id: int, request: Any, reply: Any) -> None:
        def answered(response: Any) -> None:
            change(response)
            reply(response)

        answer(node_id, request, answered if isinstance(request, asked) else reply)

    groups.handle = handle  # type: ignore[method-assign]


def _refuse_some(world: Halves, code: ErrorCode) -> None:
    """The coordinator refuses what is committed of the last three partitions of `t`."""

    def change(response: Any) -> None:
        for group in response.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    if each.partition_index >= 3:
                        each.error_code = code

    _change(world, OffsetFetchRequest, change)


def _refuse_commits(world: Halves) -> None:
    """As a coordinator that never gets ready for them."""

    def change(response: Any) -> None:
        for topic in response.topics:
            for each in topic.partitions:
                each.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        world.cluster.groups.offsets.clear()

    _change(world, OffsetCommitRequest, change)


def test_what_the_coordinator_refuses_of_some_partitions_holds_up_no_other() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g", auto_offset_reset="earliest") as reader:
            reader.assign([("t", index) for index in range(6)])
            await _read_soon(runtime, reader)
            await reader.poll(2.0)
            codes = {where: error.code for where, error in reader.troubles().items()}
            assert codes == dict.fromkeys(ILL, ErrorCode.UNSTABLE_OFFSET_COMMIT)

    with Halves(1) as world:
        _refuse_some(world, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        world.run_client(main)


def test_what_may_not_be_read_is_told_for_each_and_holds_up_no_other() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g", auto_offset_reset="earliest") as reader:
            reader.assign([("t", index) for index in range(6)])
            begun, count = runtime.clock.monotonic(), 0
            told: set[object] = set()
            codes: set[ErrorCode] = set()
            while count < 30 or told != ILL:
                try:
                    count += sum(len(part.records) for part in await reader.poll(0.1))
                except KafkaError as error:
                    told.add((error.context["topic"], error.context["partition"]))
                    codes.add(error.code)
                assert runtime.clock.monotonic() - begun < SOON_S
            assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}

    with Halves(1) as world:
        _refuse_some(world, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        world.run_client(main)


def test_a_new_leader_that_is_away_keeps_no_other_from_being_held_against_its_own() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(
            runtime, auto_offset_reset="earliest", metadata_max_age_ms=100
        ) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await read_all(reader, 20)
            world.cut_off()
            world.cluster.move("t", 0, 2)  # epochs change for both
            world.cluster.move("t", 1, 1)
            fill(world.logs[1], 10)
            begun = runtime.clock.monotonic()
            assert await read_all(reader, 10) == {1: list(range(10, 20))}
            assert runtime.clock.monotonic() - begun < 1.5

    for seed in range(4):
        with Halves(seed) as world:
            world.run_client(main)


def test_the_first_broker_that_answers_leaves_room_for_the_others() -> None:
    with Halves(1) as world:
        world.cluster.delay_s = 0.02

        async def main(runtime: Runtime) -> None:
            async with consumer(runtime, auto_offset_reset="earliest", buffer_memory=400) as reader:
                await reader.partitions("t")
                reader.assign([("t", index) for index in range(6)])
                begun = runtime.clock.monotonic()
                await read_all(reader, 60)
                assert runtime.clock.monotonic() - begun < SOON_S

        world.run_client(main)


def test_asking_for_ends_fails_as_a_whole_and_names_what_kept_it() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with consumer(runtime, default_api_timeout_ms=3000) as reader:
            assert len(await reader.end_offsets([("t", 0), ("t", 1)])) == 2
            with pytest.raises(KafkaError) as caught:
                await reader.end_offsets([("t", index) for index in range(6)])
            return caught.value

    with Halves(1) as world:
        world.leave_leaderless()
        error = world.run_client(main)
    assert error.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert ("t", error.context["partition"]) in ILL
    asked = [each for _, each in world.cluster.requests if isinstance(each, ListOffsetsRequest)]
    assert len(asked) == 2, "what was found is not asked for again"


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def _read_five(reader: Consumer) -> list[int]:
    parts = await reader.poll(10.0, max_records=5)
    return [offset for part in parts for offset in part.offsets()]


@pytest.mark.parametrize("commits_by_itself", [True, False])
def test_what_is_assigned_again_waits_for_the_commits_of_it_that_were_begun_before(
    commits_by_itself: bool,
) -> None:
    """The second of them is sent when the first was answered, and the partition is given up and
    assigned again in between."""

    async def main(runtime: Runtime) -> list[int]:
        async with consumer(
            runtime,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=commits_by_itself,
        ) as reader:
            reader.assign([T0])
            assert await _read_five(reader) == list(range(5))
            reader.commit_soon()
            assert await _read_five(reader) == list(range(5, 10))
            if not commits_by_itself:
                reader.commit_soon()
            reader.assign([T1])
            reader.assign([T0])
            return await _read_five(reader)

    with Halves(1) as world:
        world.cluster.delay_s = 0.05
        for log in world.logs[:2]:
            fill(log, 10)
        assert world.run_client(main) == list(range(10, 15))


def test_what_is_assigned_again_does_not_wait_for_ever_nor_for_commits_of_others() -> None:
    async def main(runtime: Runtime) -> tuple[float, float]:
        async with consumer(
            runtime, group_id="g", auto_offset_reset="earliest", request_timeout_ms=2000
        ) as reader:
            reader.assign([T0])
            assert await _read_five(reader)
            took = []
            for where in (T1, T0):
                began = runtime.clock.monotonic()
                reader.assign([where])
                assert (await _read_five(reader))[0] == 0
                took.append(runtime.clock.monotonic() - began)
            return took[0], took[1]

    with Halves(1) as world:
        _refuse_commits(world)
        of_another, of_it = world.run_client(main)
    assert of_another < SOON_S
    assert 1.9 <= of_it < 2 + SOON_S, "as long as an answer may take"


T2 = TopicPartition("t", 2)


@pytest.mark.parametrize("assigned", [[[T0, T1, T2]], [[T0], [T0, T1]], [[T0], [T1]]])
def test_one_whose_commit_is_waited_for_keeps_no_other(
    assigned: list[list[TopicPartition]],
) -> None:
    """Assigned with it, after it, or instead of it."""

    async def main(runtime: Runtime) -> float:
        async with consumer(
            runtime, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
        ) as reader:
            reader.assign([T0])
            assert await _read_five(reader)
            reader.commit_soon()
            reader.assign([])
            began = runtime.clock.monotonic()
            for partitions in assigned:
                reader.assign(partitions)
                parts = await reader.poll(0.05)
            while not any(part.partition == T1.partition for part in parts):
                parts = await reader.poll(SOON_S)
            return runtime.clock.monotonic() - began

    with Halves(1) as world:
        _refuse_commits(world)
        assert world.run_client(main) < SOON_S


def test_who_waits_for_a_commit_goes_on_when_that_has_its_answer() -> None:
    async def main(runtime: Runtime) -> float:
        async with consumer(
            runtime, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
        ) as reader:
            reader.assign([T0])
            assert await _read_five(reader)
            world.cluster.delay_s = 0.5
            reader.commit_soon()
            reader.assign([T1])
            reader.assign([T0])
            began = runtime.clock.monotonic()
            assert (await _read_five(reader))[0] == 5
            return runtime.clock.monotonic() - began

    with Halves(1) as world:
        fill(world.logs[0], 10)
        took_s = world.run_client(main)
    assert 2.0 <= took_s < 2.0 + SOON_S, "commit, look-up, whether its epoch is there, and fetch"


def test_who_begins_commit_after_commit_holds_a_look_up_no_longer_than_with_one() -> None:
    async def main(runtime: Runtime) -> float:
        async with consumer(
            runtime,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=2000,
        ) as reader:
            reader.commit_soon({T0: 3})
            reader.assign([T0])
            began = runtime.clock.monotonic()
            while not await reader.poll(0.1):
                reader.commit_soon({T0: 3})
            return runtime.clock.monotonic() - began

    with Halves(1) as world:
        _refuse_commits(world)
        assert 1.9 <= world.run_client(main) < 2 + SOON_S
