"""Offsets that an admin alters: of each partition it is told whether its own is stored."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.client import Admin, ErrorCode, NewTopic, OffsetsNotStored, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from moldau.testing import EmbeddedBroker
from tests.client.world import BOOTSTRAP, ClientWorld
from tests.runtime.arena import simulate

A0, A1, A9 = (TopicPartition("a", number) for number in (0, 1, 9))
GONE = TopicPartition("gone", 0)


def on_a_broker(main: Callable[[Admin, Runtime], Awaitable[None]]) -> None:
    """Runs it with an admin of a broker that has topic a, in simulated time."""

    async def scenario(runtime: Runtime) -> None:
        async with (
            EmbeddedBroker(runtime=runtime) as broker,
            Admin(bootstrap_servers=broker.bootstrap_servers, runtime=runtime) as admin,
        ):
            await admin.create_topic(NewTopic("a", 2, 1))
            await main(admin, runtime)

    simulate(scenario)


def test_a_partition_that_there_is_not_is_told_at_once_beside_what_was_stored() -> None:
    async def main(admin: Admin, runtime: Runtime) -> None:
        begun = runtime.clock.monotonic()
        with pytest.raises(OffsetsNotStored) as caught:
            await admin.alter_group_offsets("g", {A0: 0, GONE: 5, A1: 0, A9: 3})
        assert runtime.clock.monotonic() - begun < 1.0
        error = caught.value
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not error.retriable
        assert error.context == {
            "group": "g",
            "topic": "gone",
            "partition": 0,
            "stored": ["a-0", "a-1"],
        }
        assert [each for each, why in error.results.items() if why is None] == [A0, A1]
        refused = {where: why for where, why in error.results.items() if why is not None}
        assert {where: why.context for where, why in refused.items()} == {
            GONE: {"group": "g", "topic": "gone", "partition": 0},
            A9: {"group": "g", "topic": "a", "partition": 9},
        }
        assert set(await admin.group_offsets("g")) == {A0, A1}

    on_a_broker(main)


def test_what_is_there_is_altered_without_a_word() -> None:
    async def main(admin: Admin, runtime: Runtime) -> None:
        await admin.alter_group_offsets("g", {A0: 0, A1: 0})
        assert set(await admin.group_offsets("g")) == {A0, A1}
        await admin.alter_group_offsets("g", {})

    on_a_broker(main)


def test_the_error_travels_whole() -> None:
    why = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="gone")
    error = OffsetsNotStored(why.code, why.reason, results={A0: None, GONE: why}, stored=["a-0"])
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(again), again.code, again.context) == (type(error), error.code, error.context)
    assert again.results[A0] is None
    assert str(again.results[GONE]) == str(why)


def altered(world: ClientWorld, codes: list[dict[TopicPartition, int]]) -> Any:
    """What comes of it when commits are refused so, one after the other."""
    groups = world.cluster.groups
    answer = groups._commit

    def refuse(request: OffsetCommitRequest) -> Any:
        response: Any = answer(request)
        refused = codes.pop(0) if codes else {}
        for topic in response.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                each.error_code = refused.get(where, each.error_code)
        return response

    async def main(runtime: Runtime) -> KafkaError | None:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            try:
                await admin.alter_group_offsets("g", {A0: 3, A1: 4})
            except KafkaError as error:
                return error
            return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_commit", refuse)
        return world.run_client(main)


def asked(world: ClientWorld) -> list[list[int]]:
    """The partitions of each commit."""
    return [
        [each.partition_index for topic in request.topics for each in topic.partitions]
        for _, request in world.cluster.requests
        if isinstance(request, OffsetCommitRequest)
    ]


def test_what_may_work_later_is_tried_again_and_nothing_else_is() -> None:
    with ClientWorld() as world:
        world.cluster.add_topic("a", [1, 1])
        assert altered(world, [{A1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}]) is None
        assert asked(world) == [[0, 1], [1]]


def test_a_coordinator_that_moved_is_looked_for() -> None:
    with ClientWorld() as world:
        world.cluster.add_topic("a", [1, 1])
        nowhere = dict.fromkeys((A0, A1), int(ErrorCode.NOT_COORDINATOR))
        assert altered(world, [nowhere]) is None
        assert asked(world) == [[0, 1], [0, 1]]
        looked = [type(each).__name__ for _, each in world.cluster.requests]
        assert looked.count("FindCoordinatorRequest") == 2


def test_members_are_told_of_and_nothing_is_stored() -> None:
    with ClientWorld() as world:
        world.cluster.add_topic("a", [1, 1])
        busy = dict.fromkeys((A0, A1), int(ErrorCode.UNKNOWN_MEMBER_ID))
        error = altered(world, [busy])
    assert isinstance(error, OffsetsNotStored)
    assert error.reason.startswith("the group has members")
    assert error.context["stored"] == []
    assert set(error.results) == {A0, A1}
