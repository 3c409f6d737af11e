"""Groups on Apache Kafka and on moldau: our consumers, and other people's beside them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

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
from tests.conformance.broker import moldau as moldau
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM
from tests.peers.kafka_broker import kafka_broker as kafka_broker

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


def run(main: Callable[[], Coroutine[Any, Any, Any]], within_s: float = 60) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(within_s):
            return await main()

    return asyncio.run(bounded())


async def make_topic(broker: Broker, name: str, partitions: int = 1) -> None:
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(NewTopic(name, partitions, 1))


async def fill(broker: Broker, topic: str, numbers: Sequence[int], partitions: int) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number, partition=number % partitions)


class Broker(Protocol):
    """Any broker that runs."""

    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture(params=["apache-kafka", "moldau"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Apache Kafka, and then moldau's own."""
    name = "kafka_broker" if request.param == "apache-kafka" else "moldau"
    found: Broker = request.getfixturevalue(name)
    return found


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
    topic = f"shared-{'-'.join(options.values()) or 'eager'}"

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


def _moldau(broker: Broker, topic: str, options: Options) -> Any:
    return reading(broker, [topic], topic, **options)


@asynccontextmanager
async def _aiokafka(broker: Broker, topic: str, options: Options) -> AsyncIterator[Any]:
    aiokafka = pytest.importorskip("aiokafka")
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    strategies = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
        partition_assignment_strategy=[strategies[options["partition_assignment_strategy"]]],
    )
    await consumer.start()
    member = _Other(lambda: {TopicPartition(*each) for each in consumer.assignment()})

    async def read() -> None:
        async for record in consumer:
            member.values.append(int(record.value))

    task = asyncio.create_task(read())
    try:
        yield member
    finally:
        task.cancel()
        await asyncio.wait([task])
        await consumer.stop()


class _Other:
    def __init__(self, owned: Callable[[], set[TopicPartition]]) -> None:
        self._owned = owned
        self.values: list[int] = []

    @property
    def owned(self) -> set[TopicPartition]:
        return self._owned()


@asynccontextmanager
async def _polled(
    poll: Callable[[], list[bytes]], owned: Callable[[], Any], close: Callable[[], Any]
) -> AsyncIterator[_Other]:
    """A consumer that blocks, in a thread."""
    is_over = False
    latest: set[TopicPartition] = set()
    member = _Other(lambda: latest)

    def read() -> None:
        while not is_over:
            member.values.extend(map(int, poll()))
            latest.clear()
            latest.update(TopicPartition(each.topic, each.partition) for each in owned())
        close()

    task = asyncio.create_task(asyncio.to_thread(read))
    try:
        yield member
    finally:
        is_over = True
        await task


def _confluent(broker: Broker, topic: str, options: Options) -> Any:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    if "group_protocol" in options:
        settings["group.protocol"] = "consumer"
    else:
        settings["heartbeat.interval.ms"] = 300
        settings["partition.assignment.strategy"] = options["partition_assignment_strategy"]
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])

    def poll() -> list[bytes]:
        return [each.value() for each in consumer.consume(500, 0.1) if not each.error()]

    return _polled(poll, consumer.assignment, consumer.close)


def _kafka_python(broker: Broker, topic: str, options: Options) -> Any:
    kafka = pytest.importorskip("kafka")
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    strategies = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
        partition_assignment_strategy=[strategies[options["partition_assignment_strategy"]]],
    )

    def poll() -> list[bytes]:
        return [each.value for found in consumer.poll(100).values() for each in found]

    return _polled(poll, consumer.assignment, consumer.close)


@asynccontextmanager
async def _java(broker: Broker, topic: str, options: Options) -> AsyncIterator[_Other]:
    """Kafka's own consumer, in the program that Kafka's system tests use."""
    kafka = fetch_or_skip()
    command = [*TOOL_JVM, "-cp", kafka.class_path, "org.apache.kafka.tools.VerifiableConsumer"]
    command += ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--verbose"]
    command += ["--group-id", topic, "--reset-policy", "earliest", "--enable-autocommit"]
    if "group_protocol" in options:
        command += ["--group-protocol", "consumer"]
    else:
        strategy = JAVAS[options["partition_assignment_strategy"]]
        command += ["--assignment-strategy", f"org.apache.kafka.clients.consumer.{strategy}"]
    process = await asyncio.create_subprocess_exec(
        kafka.java, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    owned: set[TopicPartition] = set()
    member = _Other(lambda: owned)

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            told = json.loads(line)
            where = {TopicPartition(e["topic"], e["partition"]) for e in told.get("partitions", ())}
            if told["name"] == "partitions_assigned":
                owned.update(where)
            elif told["name"] == "partitions_revoked":
                owned.difference_update(where)
            elif told["name"] == "record_data":
                member.values.append(int(told["value"]))

    task = asyncio.create_task(read())
    try:
        yield member
    finally:
        process.terminate()
        await process.wait()
        await task


JAVAS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def _strategy(name: str) -> Options:
    return {"partition_assignment_strategy": name}


MIXED = [
    (_java, _strategy("range")),
    (_java, _strategy("sticky")),
    (_java, _strategy("cooperative-sticky")),
    (_java, {"group_protocol": "consumer"}),
    (_aiokafka, _strategy("roundrobin")),
    (_aiokafka, _strategy("sticky")),
    (_confluent, _strategy("range")),
    (_confluent, _strategy("cooperative-sticky")),
    (_confluent, {"group_protocol": "consumer"}),
    (_kafka_python, _strategy("range")),
    (_kafka_python, _strategy("cooperative-sticky")),
]


@pytest.mark.parametrize("is_first", [True, False], ids=["ours-leads", "theirs-leads"])
@pytest.mark.parametrize(
    ("other", "options"),
    MIXED,
    ids=[f"{other.__name__[1:]}-{'-'.join(options.values())}" for other, options in MIXED],
)
def test_other_peoples_consumers_share_with_ours(
    broker: Broker, other: Any, options: Options, is_first: bool
) -> None:
    name = f"mixed{other.__name__}-{'-'.join(options.values())}-{is_first}"

    async def main() -> None:
        await make_topic(broker, name, 4)
        every = {TopicPartition(name, n) for n in range(4)}
        makes = [_moldau, other] if is_first else [other, _moldau]
        async with makes[0](broker, name, options) as first:
            await reached(lambda: first.owned == every)
            async with makes[1](broker, name, options) as second:
                await reached(lambda: len(first.owned) == 2 and len(second.owned) == 2)
                assert first.owned | second.owned == every
                await fill(broker, name, range(40), 4)
                await reached(lambda: len(first.values) + len(second.values) >= 40)
                assert Counter(first.values + second.values) == Counter(range(40))
            await reached(lambda: first.owned == every)

    run(main)


@PROTOCOLS
def test_a_static_member_comes_back_to_its_partitions(broker: Broker, options: Options) -> None:
    topic = f"static-{'-'.join(options.values()) or 'eager'}"

    async def main() -> None:
        await make_topic(broker, topic, 4)
        async with reading(broker, [topic], topic, group_instance_id="a", **options) as first:
            named = {**options, "group_instance_id": "b"}
            async with reading(broker, [topic], topic, **named) as second:
                await reached(lambda: len(first.owned) == 2 and len(second.owned) == 2)
                before = second.owned
                heard = len(first.told.words)
            async with reading(broker, [topic], topic, **named) as second:
                await reached(lambda: second.owned)
                assert second.owned == before
            assert len(first.told.words) == heard, "nobody else was disturbed"

    run(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_finds_topics_that_come_later(broker: Broker, protocol: str) -> None:
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
    broker: Broker, protocol: str
) -> None:
    topic = f"slow-{protocol}"

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
            with pytest.raises(KafkaError, match=r"max\.poll\.interval\.ms|no member") as caught:
                await slow.commit()
            assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
            while [kind for kind, _ in told.words] != ["assigned", "lost", "assigned"]:
                await slow.poll(0.2)

    run(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_committed_as_told(broker: Broker, protocol: str) -> None:
    topic = f"commits-{protocol}"
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
def test_an_admin_sees_groups_and_moves_their_offsets(broker: Broker, protocol: str) -> None:
    topic = f"administered-{protocol}"
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
