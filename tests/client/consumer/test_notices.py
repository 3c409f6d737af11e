"""What a consumer says by itself: one warning a happening, with place, offsets and setting."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.group.simulated_consumer import OPTIONS
from tests.client.world import ClientWorld

PROTOCOLS = list(OPTIONS)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING, "moldau.client")
    return lambda: [each.getMessage() for each in caplog.records]


def test_an_offset_out_of_range_is_told_with_where_it_goes_on(said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            reader.seek(("t", 0), 10)
            assert await read_all(reader, 50) == {0: list(range(50, 100))}

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 100)
        log.start = 50
        del log.batches[:5]
        world.run_client(main)
    (line,) = said()
    for fact in (
        "topic='t'",
        "partition=0",
        "old_offset=10",
        "new_offset=50",
        "setting='auto.offset.reset'",
    ):
        assert fact in line


def test_a_position_that_was_never_known_is_no_news(said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            await read_all(reader, 10)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
    assert said() == []


def test_records_that_an_unclean_election_took_back_are_told(said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, metadata_max_age_ms=200) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            await read_all(reader, 30)
            log.truncate(20)
            world.cluster.move("t", 0, 2)
            fill(log, 10)
            await read_all(reader, 10)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 30)
        world.run_client(main)
    (line,) = said()
    assert "truncated" in line
    assert "topic='t', partition=0" in line or "old_offset=30, new_offset=20" in line
    assert "old_offset=30, new_offset=20" in line


def test_a_broker_that_is_away_for_long_is_told_once_and_seen_in_troubles(said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        where = TopicPartition("t", 0)
        async with consumer(runtime, request_timeout_ms=1000) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.seek_to_beginning()
            await read_all(reader, 20)
            assert reader.troubles() == {}
            world.cluster.silence.add(FetchRequest)
            await reader.poll(5.0)
            assert set(reader.troubles()) == {where, TopicPartition("t", 1)}
            assert said() == [], "it may pass"
            await reader.poll(30.0)
            assert len(said()) == 2, "one a partition"
            world.cluster.silence.clear()
            for log in world.cluster.topics["t"]:
                fill(log, 10)
            await read_all(reader, 20)
            assert reader.troubles() == {}

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2]):
            fill(log, 10)
        world.run_client(main)
    first, second = sorted(said(), key=lambda line: "partition=1" in line)
    assert "offset=10, topic='t', partition=0" in first
    assert "offset=10, topic='t', partition=1" in second


def test_partitions_with_the_same_trouble_are_told_in_one_line(said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, request_timeout_ms=1000) as reader:
            reader.assign([("t", 0), ("t", 1), ("t", 2), ("u", 0)])
            await reader.seek_to_beginning()
            await read_all(reader, 40)
            world.nodes["b2"].crash()
            await reader.poll(30.0)

    with ClientWorld() as world:
        for log in (*world.cluster.add_topic("t", [2, 2, 2]), *world.cluster.add_topic("u", [2])):
            fill(log, 10)
        world.run_client(main)
    first, second = sorted(said(), key=lambda line: "topic='u'" in line)
    assert "topic='t', partitions=[0, 1, 2]" in first
    assert "topic='u', partition=0" in second


def test_a_broker_that_is_gone_is_told_for_its_partitions_alone(said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, request_timeout_ms=1000) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.seek_to_beginning()
            await read_all(reader, 20)
            world.nodes["b2"].crash()
            await reader.poll(5.0)
            assert set(reader.troubles()) == {TopicPartition("t", 1)}
            await reader.poll(30.0)

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2]):
            fill(log, 10)
        world.run_client(main)
    (line,) = said()
    assert "topic='t', partition=1" in line
    assert "b2:9092" in line


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_coordinator_that_is_away_for_long_is_told_once(kind: str, said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(
            runtime,
            group_id="g",
            auto_offset_reset="earliest",
            request_timeout_ms=1000,
            **OPTIONS[kind],
        ) as reader:
            world.nodes["b1"].crash()  # it is the coordinator
            await reader.subscribe("t")
            assert await reader.poll(60.0) == []
            world.cluster.groups.coordinator = 2
            await read_all(reader, 10)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [2])[0], 10)
        world.run_client(main)
    (line,) = said()
    assert "coordinator gave no answer for 10 s" in line
    assert "group='g'" in line


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_member_without_partitions_that_reaches_no_broker_has_that_trouble(kind: str) -> None:
    """Also of topics that it knows: a service must not look ready meanwhile."""

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g", **OPTIONS[kind]) as reader:
            cut = world.cluster.cut_answers
            assert len(await reader.partitions("t")) == 1
            cut[FindCoordinatorRequest] = cut[MetadataRequest] = 10**6
            await reader.subscribe(["t"])
            assert await reader.poll(5.0) == []
            [(where, error)] = reader.troubles().items()
            assert (where, error.context["topic"]) == (TopicPartition("t", -1), "t")
            cut[FindCoordinatorRequest] = cut[MetadataRequest] = 0
            await reader.poll(5.0)
            assert reader.assignment == [TopicPartition("t", 0)]
            assert reader.troubles() == {}

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_topics_of_which_nothing_is_heard_are_told_once_and_seen_in_troubles(
    kind: str, said: Any
) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(
            runtime, group_id="g", auto_offset_reset="earliest", **OPTIONS[kind]
        ) as reader:
            cut = world.cluster.cut_answers
            cut[MetadataRequest] = 10**6
            await reader.subscribe(["t", "u"])
            assert await reader.poll(5.0) == []
            for where, error in reader.troubles().items():
                assert where.partition == -1
                assert error.context["topic"] == where.topic
                assert "no answer" in error.reason
            assert [where.topic for where in reader.troubles()] == ["t", "u"]
            assert said() == [], "it may pass"
            assert await reader.poll(40.0) == []
            assert len(said()) == 1
            cut[MetadataRequest] = 0
            await read_all(reader, 10)
            assert reader.troubles() == {}

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.cluster.add_topic("u", [1])
        world.run_client(main)
    (line,) = said()
    assert "nothing was heard of topics for 10 s" in line
    assert "the broker sent what is no answer" in line
    assert "group='g', topics=['t', 'u']" in line


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_handler_that_takes_too_long_is_told_by_a_warning_and_by_commit(
    kind: str, said: Any
) -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with consumer(
            runtime,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_interval_ms=4000,
            **OPTIONS[kind],
        ) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            await asyncio.sleep(6)
            with pytest.raises(KafkaError, match=r"max\.poll\.interval\.ms") as caught:
                await reader.commit()
            await read_all(reader, 10)
            await reader.commit()
            return caught.value

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        error = world.run_client(main)
        assert world.cluster.groups.offsets["g"] == {("t", 0): 10}
    assert error.code is ErrorCode.UNKNOWN_MEMBER_ID
    facts = {"group": "g", "topic": "t", "partition": 0, "offset": 10}
    assert error.context == {**facts, "setting": "max.poll.interval.ms"}
    (line,) = said()
    assert "partitions=['t-0'], setting='max.poll.interval.ms'" in line


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_who_is_thrown_out_hears_of_it(kind: str, said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(
            runtime, group_id="g", auto_offset_reset="earliest", **OPTIONS[kind]
        ) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            world.cluster.groups.groups.clear()  # the coordinator has forgotten everything
            await read_all(reader, 10)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
    lost = [line for line in said() if "partitions=['t-0']" in line]
    assert len(lost) == 1
    assert "session.timeout.ms" in lost[0]


def test_a_commit_that_goes_by_itself_and_fails_is_told(said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(
            runtime,
            group_id="g",
            auto_offset_reset="earliest",
            default_api_timeout_ms=2000,
            request_timeout_ms=1000,
            auto_commit_interval_ms=100,
            **OPTIONS["eager"],
        ) as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            world.cluster.silence.add(OffsetCommitRequest)
            for _ in range(10):
                await reader.poll(0.5)
            world.cluster.silence.clear()

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
    assert said()
    for fact in ("committed by themselves", "group='g', topic='t', partition=0, offset=10"):
        assert fact in said()[0]


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
)
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_name_that_can_never_be_is_an_error_of_poll(kind: str, code: ErrorCode) -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with consumer(runtime, group_id="g", **OPTIONS[kind]) as reader:
            await reader.subscribe(["bad!name", "t"])
            with pytest.raises(KafkaError) as caught:
                await reader.poll(10.0)
            return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refused_topics["bad!name"] = code
        error = world.run_client(main)
    assert error.code is code
    assert error.context["topic"] == "bad!name"


def test_but_not_of_one_after_another_subscription() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g", **OPTIONS["eager"]) as reader:
            await reader.subscribe("bad!name")
            await asyncio.sleep(1.0)
            await reader.subscribe("t")
            await reader.poll(10.0)
            assert reader.assignment == [TopicPartition("t", 0)]

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refused_topics["bad!name"] = ErrorCode.INVALID_TOPIC_EXCEPTION
        world.run_client(main)


@pytest.mark.parametrize("may_create", [True, False])
def test_a_topic_that_nobody_makes_is_told_once(may_create: bool, said: Any) -> None:
    """Where to ask for it may make it, not before it could have been made."""

    async def main(runtime: Runtime) -> None:
        async with consumer(
            runtime,
            group_id="g",
            allow_auto_create_topics=may_create,
            metadata_max_age_ms=500,
            **OPTIONS["eager"],
        ) as reader:
            await reader.subscribe(["t", "typo"])
            await reader.poll(1.5)
            assert len(said()) == (0 if may_create else 1)
            await reader.poll(5.0)
            (trouble,) = reader.troubles().items()
            assert trouble[0] == TopicPartition("typo", -1)
            assert trouble[1].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            world.cluster.add_topic("typo", [1])
            await reader.poll(5.0)
            assert reader.troubles() == {}

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    (line,) = said()
    assert "topic='typo'" in line
    assert "setting='allow.auto.create.topics'" in line


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_topic_that_is_made_later_is_read_soon_and_not_made_by_asking(kind: str) -> None:
    asked: list[bool] = []

    async def main(runtime: Runtime) -> float:
        options = {**OPTIONS[kind], "auto_offset_reset": "earliest"}
        async with consumer(runtime, group_id="g", **options) as reader:
            await reader.subscribe(["later"])
            assert await reader.poll(4.0) == []
            asked.extend(
                each.allow_auto_topic_creation
                for _, each in world.cluster.requests
                if isinstance(each, MetadataRequest) and each.topics
            )
            (log,) = world.cluster.add_topic("later", [1])
            fill(log, 3)
            made = world.now
            while not await reader.poll(1.0):
                assert world.now < made + 60
            return world.now - made

    with ClientWorld() as world:
        assert world.run_client(main) < 5
    if kind == "consumer":  # the coordinator says what there is
        assert not any(asked[1:])
    else:
        # At the start, of subscribing and of joining, it may be made; then it is only looked for.
        assert asked == [True, True, True, False, False, False]


def test_what_cannot_be_reached_names_what_was_asked_for_and_where() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with consumer(
            runtime, group_id="g", default_api_timeout_ms=3000, request_timeout_ms=1000
        ) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_end()
            for name in ("b1", "b2"):
                world.nodes[name].crash()
            with pytest.raises(KafkaError) as caught:
                await reader.commit({TopicPartition("t", 0): 7})
            return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        context = world.run_client(main).context
    assert context["tried"].keys() == {"b1:9092", "b2:9092"}
    assert context["setting"] == "bootstrap.servers"
    assert context["attempts"] > 1
    facts = (context["group"], context["topic"], context["partition"], context["offset"])
    assert facts == ("g", "t", 0, 7)
