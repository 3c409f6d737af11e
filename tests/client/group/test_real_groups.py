"""Groups of our consumers on Apache Kafka and on moldau; tests/conformance/test_mixed_groups.py has
other people's among them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.client import (
    Admin,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from moldau.errors.codes import ErrorCode, KafkaError
from tests.client.choices import GroupProtocol
from tests.client.group.bounded_run import run
from tests.conformance.quick_brokers import quick_kafka as quick_kafka
from tests.conformance.quick_brokers import quick_moldau as quick_moldau
from tests.peers.either_broker import Broker, either

pytestmark = pytest.mark.real

PROTOCOLS = pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition_assignment_strategy": "cooperative-sticky"},
        {"group_protocol": "consumer"},
    ],
    ids=["eager", "cooperative", "consumer"],
)
Options = dict[str, Any]


async def make_topic(broker: Broker, name: str, partitions: int = 1) -> None:
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(NewTopic(name, partitions, 1))


async def fill(broker: Broker, topic: str, numbers: Sequence[int], partitions: int) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number, partition=number % partitions)


broker = either("quick_kafka", "quick_moldau")


class Told(RebalanceListener):
    """What a listener heard."""

    def __init__(self) -> None:
        self.words: list[tuple[str, tuple[TopicPartition, ...]]] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.words.append(("revoked", tuple(partitions)))

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.words.append(("assigned", tuple(partitions)))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.words.append(("lost", tuple(partitions)))

    @property
    def moves(self) -> list[tuple[str, tuple[TopicPartition, ...]]]:
        """The words that are about a partition."""
        return [each for each in self.words if each[1]]


class Reading:
    """A consumer of ours that reads in a task of its own."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.told = Told()
        self.values: list[int] = []

    async def read(self) -> None:
        while True:
            for part in await self.consumer.poll(1.0):
                self.values += [int(record.value or b"") for record in part.records]

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self.consumer.assignment)

    @property
    def generation(self) -> int:
        return self.consumer.group_metadata().generation


@asynccontextmanager
async def reading(
    broker: Broker, topics: Sequence[str], group: str, **options: Any
) -> AsyncIterator[Reading]:
    settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, **options}
    if options.get("group_protocol") == "consumer":
        del settings["heartbeat_interval_ms"]
    async with Consumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=group, **settings
    ) as consumer:
        member = Reading(consumer)
        await consumer.subscribe(topics, listener=member.told)
        task = asyncio.create_task(member.read())
        try:
            yield member
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


async def reached(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - it is another process that changes
        await asyncio.sleep(0.05)


@PROTOCOLS
def test_members_share_come_and_go_and_nothing_is_left_out(
    broker: Broker, options: Options
) -> None:
    topic = f"members-shared-{'-'.join(options.values()) or 'eager'}"

    async def main() -> None:
        await make_topic(broker, topic, 6)
        every = {TopicPartition(topic, n) for n in range(6)}
        async with reading(broker, [topic], topic, **options) as first:
            await fill(broker, topic, range(60), 6)
            await reached(lambda: len(first.values) == 60)
            async with reading(broker, [topic], topic, **options) as second:
                await reached(lambda: len(first.owned) == 3 and len(second.owned) == 3)
                assert first.owned | second.owned == every
                await fill(broker, topic, range(60, 120), 6)
                await reached(lambda: len(first.values) + len(second.values) == 120)
            await reached(lambda: first.owned == every)
            await fill(broker, topic, range(120, 180), 6)
            await reached(lambda: len(first.values) + len(second.values) == 180)
        whole = Counter(first.values + second.values)
        assert whole == Counter(range(180)), "each once: offsets were committed when they went"
        assert not any(kind == "lost" for kind, _ in first.told.words + second.told.words)
        if options:  # who keeps partitions is not told that they went
            given_up = [each for kind, each in first.told.words if kind == "revoked"]
            assert [len(each) for each in given_up] == [3, 6]

    run(main)


@PROTOCOLS
def test_a_static_member_comes_back_to_its_partitions(broker: Broker, options: Options) -> None:
    topic = f"members-static-{'-'.join(options.values()) or 'eager'}"

    async def main() -> None:
        await make_topic(broker, topic, 4)
        async with reading(broker, [topic], topic, group_instance_id="a", **options) as first:
            named = {**options, "group_instance_id": "b"}
            async with reading(broker, [topic], topic, **named) as second:
                await reached(lambda: len(first.owned) == 2 and len(second.owned) == 2)
                await reached(lambda: first.generation == second.generation)
                before = second.owned
                undisturbed = first.generation, first.told.moves
            async with reading(broker, [topic], topic, **named) as second:
                await reached(lambda: second.owned)
                assert second.owned == before
            assert (first.generation, first.told.moves) == undisturbed, "nobody else was disturbed"

    run(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_finds_topics_that_come_later(broker: Broker, protocol: GroupProtocol) -> None:
    async def main() -> None:
        for name in ("1", "2", "other"):
            await make_topic(broker, f"pattern-{protocol}-{name}")
        async with Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=f"pattern-{protocol}",
            group_protocol=protocol,
            metadata_max_age_ms=500,
        ) as consumer:
            await consumer.subscribe(pattern=f"pattern-{protocol}-[0-9]+")
            wanted = [TopicPartition(f"pattern-{protocol}-{n}", 0) for n in (1, 2)]
            while sorted(consumer.assignment) != wanted:
                await consumer.poll(0.1)
            await make_topic(broker, f"pattern-{protocol}-3")
            wanted.append(TopicPartition(f"pattern-{protocol}-3", 0))
            while sorted(consumer.assignment) != wanted:
                await consumer.poll(0.1)
            assert consumer.subscription == {where.topic for where in wanted}

    run(main, 90)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_does_not_poll_loses_its_partitions_and_cannot_commit(
    broker: Broker, protocol: GroupProtocol
) -> None:
    topic = f"members-slow-{protocol}"

    async def main() -> None:
        await make_topic(broker, topic, 2)
        await fill(broker, topic, range(10), 2)
        async with Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=topic,
            group_protocol=protocol,
            max_poll_interval_ms=1500,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as slow:
            told = Told()
            await slow.subscribe([topic], listener=told)
            while not await slow.poll(0.5):
                pass
            await asyncio.sleep(2.5)  # a handler that takes too long
            with pytest.raises(KafkaError, match=r"max\.poll\.interval\.ms") as caught:
                await slow.commit()
            assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
            assert caught.value.context["setting"] == "max.poll.interval.ms"
            assert (caught.value.context["group"], caught.value.context["topic"]) == (topic, topic)
            assert caught.value.context["offset"] in range(1, 11)
            while [kind for kind, _ in told.words] != ["assigned", "lost", "assigned"]:
                await slow.poll(0.2)

    run(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_committed_as_told(broker: Broker, protocol: GroupProtocol) -> None:
    topic = f"members-commits-{protocol}"
    zero = TopicPartition(topic, 0)

    def consumer(**options: Any) -> Consumer:
        return Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=topic,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            **options,
        )

    async def main() -> None:
        await make_topic(broker, topic)
        await fill(broker, topic, range(100), 1)
        async with consumer(enable_auto_commit=False) as reader:
            await reader.subscribe(topic)
            async for record in reader:
                if record.offset == 41:
                    break
            await reader.commit()
            found = (await reader.committed([zero]))[zero]
            assert found is not None
            assert (found.offset, found.leader_epoch) == (42, 0)
            async for record in reader:  # goes on behind the break
                assert record.offset == 42
                break
            await reader.commit({zero: OffsetAndMetadata(7, "note")})
            assert (await reader.committed())[zero] == OffsetAndMetadata(7, "note", -1)
            task = reader.commit_soon({zero: 8})
            await reader.commit_soon({zero: 9})
            assert task.done()
        async with consumer() as reader:
            await reader.subscribe(topic)
            parts: list[Any] = []
            while not parts:
                parts = await reader.poll(1.0, max_records=11)
            assert parts[0].records[0].offset == 9
        async with consumer() as reader:  # closing has committed what was given
            assert (await reader.committed([zero]))[zero] == OffsetAndMetadata(20, "", 0)

    run(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_admin_sees_groups_and_moves_their_offsets(
    broker: Broker, protocol: GroupProtocol
) -> None:
    topic = f"members-administered-{protocol}"
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def main() -> None:
        await make_topic(broker, topic, 2)
        await fill(broker, topic, range(20), 2)
        options = {} if protocol == "classic" else {"group_protocol": protocol}
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            async with reading(broker, [topic], topic, **options) as reader:
                await reached(lambda: len(reader.values) == 20)
                found = await admin.describe_group(topic)
                assert (found.state, found.type) == ("Stable", protocol)
                (member,) = found.members
                assert member.member_id == reader.consumer.member_id
                assert set(member.assignment) == {zero, one}
                assert member.topics == (topic,)
                listed = await admin.list_groups(states=["Stable"], types=[protocol])
                assert topic in [each.group_id for each in listed]
                with pytest.raises(KafkaError) as caught:
                    await admin.alter_group_offsets(topic, {zero: 1})
                assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
                with pytest.raises(KafkaError) as caught:
                    await admin.delete_group(topic)
                assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
            assert {w: o.offset for w, o in (await admin.group_offsets(topic)).items()} == {
                zero: 10,
                one: 10,
            }
            await admin.alter_group_offsets(topic, {zero: 3, one: OffsetAndMetadata(4, "here")})
            assert await admin.group_offsets(topic) == {
                zero: OffsetAndMetadata(3),
                one: OffsetAndMetadata(4, "here"),
            }
            assert await admin.delete_group_offsets(topic, [zero]) == {zero: None}
            assert set(await admin.group_offsets(topic)) == {one}
            await admin.delete_group(topic)
            missing = (await admin.describe_groups([topic]))[topic]
            assert isinstance(missing, KafkaError)
            assert missing.code is ErrorCode.GROUP_ID_NOT_FOUND

    run(main)


def test_an_admin_removes_members(broker: Broker) -> None:
    async def main() -> None:
        await make_topic(broker, "removed")
        async with (
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
            reading(broker, ["removed"], "removed", group_instance_id="i") as reader,
        ):
            await reached(lambda: reader.owned)
            before = reader.consumer.member_id
            await admin.remove_all_members("removed", reason="a test")
            await reached(lambda: reader.consumer.member_id not in ("", before))
            assert [kind for kind, _ in reader.told.words][1] == "lost"
            with pytest.raises(KafkaError) as caught:
                await admin.remove_members("removed", instance_ids=["nobody"])
            assert caught.value.context["member"] == "nobody"

    run(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_name_that_can_never_be_is_an_error_of_poll(
    broker: Broker, protocol: GroupProtocol
) -> None:
    async def main() -> None:
        async with Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=f"bad-{protocol}",
            group_protocol=protocol,
        ) as reader:
            await reader.subscribe("bad!name")
            with pytest.raises(KafkaError) as caught:
                await reader.poll(20.0)
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
            assert caught.value.context["topic"] == "bad!name"

    run(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_is_measured_rebalances_when_told_to_and_leaves_as_told(
    broker: Broker, protocol: GroupProtocol
) -> None:
    topic = f"members-measured-{protocol}"

    async def main() -> None:
        await make_topic(broker, topic, 2)
        await fill(broker, topic, range(10), 2)
        reader = Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=topic,
            group_protocol=protocol,
            group_instance_id="one",
            auto_offset_reset="earliest",
        )
        async with reader:
            assert topic in [each.name for each in await reader.list_topics()]
            await reader.subscribe(topic)
            seen = 0
            while seen < 10:
                seen += sum(len(part.records) for part in await reader.poll(0.5))
            await reader.commit()
            before = reader.group_metadata()
            assert before.member_id == reader.member_id != ""
            metrics = reader.metrics()
            fetches = metrics["consumer-fetch-manager-metrics"]
            assert fetches["records-consumed-total"] == 10
            assert fetches["records-lag-max"] == 0
            group = metrics["consumer-coordinator-metrics"]
            assert group["assigned-partitions"] == 2
            assert group["rebalance-total"] >= 1
            assert 0 < group["commit-latency-avg"] < 30_000
            if reader.enforce_rebalance("measured"):
                while reader.group_metadata().generation == before.generation:
                    await reader.poll(0.1)
            await reader.aclose(leave_group=True)
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            described = (await admin.describe_groups([topic]))[topic]
            assert not isinstance(described, KafkaError)
            assert list(described.members) == [], "a static member has left for good"

    run(main)
