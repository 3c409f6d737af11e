"""Offsets that an admin alters: of each partition it is told whether its own is stored."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from typing import Any, assert_type

import pytest

from moldau.client import Admin, ErrorCode, NewTopic, OffsetsNotStored, TopicPartition
from moldau.client.base.offsets import EARLIEST, LATEST
from moldau.client.base.unknown_topic import UnknownTopic
from moldau.errors.codes import KafkaError
from moldau.link.settings import bootstrap_servers
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
        assert assert_type(error.stored, list[TopicPartition]) == [A0, A1]
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
    assert again.stored == [A0]
    assert str(again.results[GONE]) == str(why)


LATER = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
NEVER = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
NO_SUCH_TOPIC = UnknownTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize(
    ("results", "is_retriable"),
    [
        ({A0: LATER}, True),
        ({A0: None, A1: LATER}, True),
        ({A0: NEVER}, False),
        ({A0: LATER, A1: NEVER}, False),
        ({A0: NO_SUCH_TOPIC, A1: LATER}, False),
        ({A0: None, A1: NO_SUCH_TOPIC}, False),
    ],
)
def test_it_is_retriable_if_all_that_failed_is(
    results: dict[TopicPartition, KafkaError | None], is_retriable: bool
) -> None:
    first = next(error for error in results.values() if error is not None)
    assert OffsetsNotStored(first.code, results=results).retriable is is_retriable


def test_without_results_its_code_says_whether_it_is_retriable() -> None:
    assert OffsetsNotStored(LATER.code).retriable
    assert not OffsetsNotStored(NEVER.code).retriable


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


# Where logs begin and end


def test_ends_of_a_topic_that_there_is_not_are_told_at_once() -> None:
    async def main(admin: Admin, runtime: Runtime) -> None:
        begun = runtime.clock.monotonic()
        with pytest.raises(KafkaError) as caught:
            await admin.list_offsets({A0: LATEST, GONE: LATEST})
        assert runtime.clock.monotonic() - begun < 1.0
        error = caught.value
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error.context["topic"] == "gone"
        assert not error.retriable

    on_a_broker(main)


def test_so_is_one_that_was_deleted_since_it_was_seen() -> None:
    async def main(admin: Admin, runtime: Runtime) -> None:
        assert set(await admin.list_offsets({A0: LATEST})) == {A0}
        bootstrap = ",".join(map(str, admin.settings[bootstrap_servers]))
        async with Admin(bootstrap_servers=bootstrap, runtime=runtime) as other:
            await other.delete_topic("a")
        begun = runtime.clock.monotonic()
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await admin.list_offsets({A0: LATEST})
        assert runtime.clock.monotonic() - begun < 1.0

    on_a_broker(main)


def test_a_partition_that_its_topic_may_yet_get_is_waited_for() -> None:
    async def main(admin: Admin, runtime: Runtime) -> None:
        ends = asyncio.ensure_future(admin.list_offsets({A9: EARLIEST}))
        await asyncio.sleep(5)
        assert not ends.done()
        await admin.create_partitions("a", 10)
        assert (await ends)[A9].offset == 0

    on_a_broker(main)
