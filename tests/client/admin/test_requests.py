"""How an admin asks: what it names when a broker is not there or nobody answers."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client import Admin, NewTopic, Resource, ResourceType, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Request
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.delete_records import DeleteRecordsRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.negotiation import supported_versions
from moldau.runtime import Runtime
from moldau.runtime.simulated import SimulationFailed
from tests.client import scripted
from tests.client.world import BOOTSTRAP, ClientWorld


def test_a_broker_that_is_not_there_is_told_at_once_and_by_its_number() -> None:
    broker = Resource(ResourceType.BROKER, "7")

    async def main(runtime: Runtime) -> None:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            begun = runtime.clock.monotonic()
            for attempt in (
                admin.alter_configs(broker, set_to={"x": "1"}),
                admin.describe_configs(broker),
                admin.describe_log_dirs([7]),
                admin.alter_replica_log_dirs({(TopicPartition("t", 0), 7): "/data"}),
            ):
                with pytest.raises(KafkaError) as caught:
                    await attempt
                assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
                assert caught.value.context == {"broker": 7, "brokers": [1, 2]}
            assert runtime.clock.monotonic() - begun < 1.0

    with ClientWorld() as world:
        world.run_client(main)


def test_what_kept_an_answer_away_is_told_in_the_end() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        options: dict[str, Any] = {"default_api_timeout_ms": 5_000, "request_timeout_ms": 700}
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime, **options) as admin:
            world.cluster.silence.add(MetadataRequest)
            with pytest.raises(KafkaError) as caught:
                await admin.describe_topics(["t"])
        return caught.value

    with ClientWorld() as world:
        error = world.run_client(main)
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert error.reason == "the broker leaves a request without an answer"
    assert error.context["broker"] in ("b1:9092", "b2:9092")
    assert error.context["attempts"] > 1
    assert error.context["setting"] == "default.api.timeout.ms"
    assert error.context["seconds"] == 5.0


def _silent(world: ClientWorld, node_id: int, request: type[Request], *, after: int = 0) -> None:
    """That broker leaves these requests without an answer, all but so many of the first."""
    seen = 0

    def look(asked: int, given: Request) -> None:
        nonlocal seen
        world.cluster.silence.discard(request)
        if asked == node_id and type(given) is request:
            seen += 1
            if seen > after:
                world.cluster.silence.add(request)

    world.cluster.on_request = look


def _delete(world: ClientWorld, before: dict[TopicPartition, int]) -> Any:
    async def main(runtime: Runtime) -> object:
        options: dict[str, Any] = {"default_api_timeout_ms": 2_000, "request_timeout_ms": 9_000}
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime, **options) as admin:
            try:
                return await admin.delete_records(before)
            except KafkaError as error:
                return error

    return world.run_client(main)


def test_what_one_broker_begins_to_move_is_told_though_another_is_not_there() -> None:
    def accept(cluster: Any, node_id: int, request: Any, code: int) -> Any:
        moves = [each for directory in request.dirs for each in directory.topics]
        return AlterReplicaLogDirsResponse(
            throttle_time_ms=0,
            results=[
                AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=[
                        AlterReplicaLogDirPartitionResult(partition_index=each, error_code=0)
                        for each in topic.partitions
                    ],
                )
                for topic in moves
            ],
        )

    async def main(runtime: Runtime) -> Any:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            return await admin.alter_replica_log_dirs({(FIRST, 7): "/a", (SECOND, 2): "/b"})

    answers: Any = scripted._ANSWERS
    with ClientWorld() as world, pytest.MonkeyPatch.context() as patch:
        patch.setitem(answers, AlterReplicaLogDirsRequest, accept)
        world.cluster.served[34] = supported_versions("broker")[34]
        found = world.run_client(main)
    assert found[SECOND, 2] is None
    assert found[FIRST, 7].code is ErrorCode.BROKER_NOT_AVAILABLE


FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_what_one_leader_deleted_is_told_though_another_does_not_answer() -> None:
    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        _silent(world, 2, DeleteRecordsRequest)
        found = _delete(world, {SECOND: 7, FIRST: 5})
    assert logs[0].start == 5
    assert list(found) == [SECOND, FIRST]
    assert found[FIRST] == 5
    error = found[SECOND]
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert error.reason == "its leader has not answered: its records may be deleted or not"
    assert error.context == {"topic": "t", "partition": 1, "before": 7}


def test_a_refusal_is_not_taken_for_the_answer_to_a_later_request() -> None:
    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[DeleteRecordsRequest].append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        _silent(world, 1, DeleteRecordsRequest, after=1)
        found = _delete(world, {FIRST: 5})
    assert found[FIRST].code is ErrorCode.REQUEST_TIMED_OUT


def test_a_partition_without_a_leader_keeps_no_other_waiting() -> None:
    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [-1, 2])
        found = _delete(world, {FIRST: 5, SECOND: 7})
    assert found[SECOND] == logs[1].start == 7
    assert found[FIRST].code is ErrorCode.LEADER_NOT_AVAILABLE


def test_deletion_that_reaches_no_leader_fails_as_a_whole() -> None:
    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        world.cluster.silence.add(DeleteRecordsRequest)
        error = _delete(world, {FIRST: 5, SECOND: 7})
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert error.context["setting"] == "default.api.timeout.ms"


@pytest.mark.parametrize("placed", [[[1, 2], [2, 1]], {1: (2, 1), 0: [1, 2]}])
def test_replicas_are_placed_by_the_order_of_partitions_or_by_their_numbers(placed: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with Admin(
            bootstrap_servers=BOOTSTRAP, runtime=runtime, default_api_timeout_ms=500
        ) as admin:
            await admin.create_topics([NewTopic("t", assignments=placed)])

    with ClientWorld() as world:
        world.cluster.served[19] = supported_versions("broker")[19]
        world.cluster.silence.add(CreateTopicsRequest)
        with pytest.raises(SimulationFailed, match="REQUEST_TIMED_OUT"):
            world.run_client(main)
        asked = [
            each for _, each in world.cluster.requests if isinstance(each, CreateTopicsRequest)
        ]
    made = asked[0].topics[0].assignments
    assert {each.partition_index: each.broker_ids for each in made} == {0: [1, 2], 1: [2, 1]}


@pytest.mark.parametrize("placed", [[1, 2], {0: 1}, {"a": [1]}, [["x"]], "ab", 7])
def test_what_places_no_replicas_is_refused_with_what_is_wanted(placed: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            with pytest.raises(TypeError, match=r"are given as a list|is an int, not"):
                await admin.create_topics([NewTopic("t", assignments=placed)])
            with pytest.raises(TypeError, match=r"are given as a list|is an int, not"):
                await admin.create_partitions("t", 3, assignments=placed)

    with ClientWorld() as world:
        world.run_client(main)
