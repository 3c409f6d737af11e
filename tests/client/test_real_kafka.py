"""The client against real brokers: Apache Kafka, whose own tools read its records and the reverse,
and moldau's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.client import (
    Admin,
    ConfigSource,
    Consumer,
    ConsumerRecord,
    NewTopic,
    Producer,
    Resource,
    ResourceType,
    TopicPartition,
)
from moldau.client.admin.topics import TO_THE_END
from moldau.client.base.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import API
from tests.client.choices import Compression
from tests.peers.either_broker import Broker
from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker
from tests.peers.known_topics import known

pytestmark = pytest.mark.real

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(60):
            return await main()

    return asyncio.run(bounded())


async def make_topic(broker: Broker, name: str, partitions: int = 1, **configs: str) -> None:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(NewTopic(name, partitions, 1, settings))


async def read(broker: Broker, topic: str, count: int, **options: Any) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with Consumer(bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
        consumer.assign(await consumer.partitions(topic))
        await consumer.seek_to_beginning()
        while len(records) < count:
            for part in await consumer.poll(5.0, max_records=1000):
                records += part.records
    return records


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_goes_there_and_back(broker: Broker, codec: Compression) -> None:
    async def main() -> list[ConsumerRecord]:
        topic = f"codec-{codec}"
        await make_topic(broker, topic, 2, retention_ms="-1")  # the records are years old
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, compression_type=codec
        ) as producer:
            for number in range(500):
                await producer.send(
                    topic,
                    b"value %d" % number if number % 7 else None,
                    key=b"%d" % number,
                    headers=(("h", b"x"), ("n", None)),
                    timestamp_ms=1_700_000_000_000 + number,
                )
        return await read(broker, topic, 500)

    records = run(main)
    by_key = {int(record.key or b""): record for record in records}
    assert len(by_key) == 500
    for number, record in by_key.items():
        assert record.value == (b"value %d" % number if number % 7 else None)
        assert record.headers == (("h", b"x"), ("n", None))
        assert record.timestamp == 1_700_000_000_000 + number


def test_kafkas_tools_read_what_we_write_and_write_what_we_read(kafka_broker: KafkaBroker) -> None:
    async def write() -> None:
        await make_topic(kafka_broker, "tools")
        async with Producer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
            await producer.send_many("tools", [b"ours-%d" % number for number in range(1000)])

    run(write)
    arguments = ("--topic", "tools", "--from-beginning", "--max-messages", "1000")
    text = kafka_broker.tool(CONSOLE_CONSUMER, *arguments, "--timeout-ms", "20000")
    assert text.split() == [f"ours-{number}" for number in range(1000)]

    theirs = "".join(f"key:theirs-{number}\n" for number in range(100))
    properties = ("--property", "parse.key=true", "--property", "key.separator=:")
    kafka_broker.tool(CONSOLE_PRODUCER, "--topic", "tools", *properties, input_text=theirs)
    records = run(lambda: read(kafka_broker, "tools", 1100))
    assert [each.value for each in records[1000:]] == [
        f"theirs-{number}".encode() for number in range(100)
    ]


def test_deliveries_tell_offsets_and_refusals(broker: Broker) -> None:
    async def main() -> KafkaError:
        await make_topic(broker, "refusals", max_message_bytes="1000")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            first = await (await producer.send("refusals", b"a", partition=0))
            large = await producer.send("refusals", b"x" * 5000, partition=0)
            with pytest.raises(KafkaError) as caught:
                await large
            second = await (await producer.send("refusals", b"b", partition=0))
            assert (first.offset, second.offset) == (0, 1)
            return caught.value

    error = run(main)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert error.context["topic"] == "refusals"


def test_offsets_and_times(broker: Broker) -> None:
    where = TopicPartition("times", 0)

    async def main() -> dict[int, int]:
        await make_topic(broker, "times", retention_ms="-1")  # the records are years old
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(10):
                at = 1_700_000_000_000 + number * 1000
                await (await producer.send("times", b"v", timestamp_ms=at))
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.delete_records({where: 2})
            wanted = (EARLIEST, LATEST, MAX_TIMESTAMP, 1_700_000_004_500, 1_800_000_000_000)
            return {
                each: (await admin.list_offsets({where: each}))[where].offset for each in wanted
            }

    assert list(run(main).values()) == [2, 10, 9, 5, -1]


def test_topics_are_made_described_grown_and_deleted(broker: Broker) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            made = await admin.create_topic(NewTopic("admin", 3, 1, {"retention.ms": "5000"}))
            assert (made.partitions, made.replication_factor) == (3, 1)
            again = (await admin.create_topics([NewTopic("admin", 3, 1)]))["admin"]
            assert isinstance(again, KafkaError)
            assert again.code is ErrorCode.TOPIC_ALREADY_EXISTS
            assert await known(admin, "admin") == 3
            described = (await admin.describe_topics(["admin", "no-such"])).values()
            topic, missing = described
            assert not isinstance(topic, KafkaError)
            assert topic.topic_id == made.topic_id
            assert [each.leader for each in topic.partitions] == [1, 1, 1]
            assert isinstance(missing, KafkaError)
            await admin.create_partitions("admin", 5)
            with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
                await admin.create_partitions("admin", 2)
            assert await known(admin, "admin", more_than=3) == 5
            assert "admin" in [each.name for each in await admin.list_topics()]
            assert "__cluster_metadata" not in [each.name for each in await admin.list_topics()]
            starts = await admin.delete_records({TopicPartition("admin", 0): TO_THE_END})
            assert starts == {TopicPartition("admin", 0): 0}
            await admin.delete_topic("admin")
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await admin.delete_topic("admin")

    run(main)


async def become(admin: Admin, topic: Resource, expected: dict[str, str]) -> None:
    """Waits until the broker has read from the metadata log what the topic's settings are now."""
    own: dict[str, str | None] = {}
    for _ in range(400):
        entries = await admin.describe_configs(topic)
        own = {each.name: each.value for each in entries if each.source is ConfigSource.TOPIC}
        if own == expected:
            return
        await asyncio.sleep(0.05)
    assert own == expected


def test_settings_of_topics_and_brokers(broker: Broker) -> None:
    async def main() -> None:
        await make_topic(broker, "configured")
        topic = Resource(ResourceType.TOPIC, "configured")
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await known(admin, "configured")
            await admin.alter_configs(topic, set_to={"retention.ms": "1000"})
            await admin.alter_configs(topic, append={"cleanup.policy": "compact"})
            expected = {"retention.ms": "1000", "cleanup.policy": "delete,compact"}
            await become(admin, topic, expected)
            await admin.alter_configs(topic, unset=["retention.ms"])
            await become(admin, topic, {"cleanup.policy": "delete,compact"})
            (retention,) = await admin.describe_configs(topic, names=["retention.ms"])
            assert retention.is_default
            with pytest.raises(KafkaError, match="INVALID_CONFIG"):
                await admin.alter_configs(topic, set_to={"retention.ms": "soon"})
            node = Resource(ResourceType.BROKER, "1")
            entries = {each.name: each for each in await admin.describe_configs(node)}
            assert entries["node.id"].value == "1"
            assert entries["node.id"].is_read_only
            assert topic in await admin.list_config_resources([ResourceType.TOPIC])

    run(main)


def test_the_cluster_describes_itself(kafka_broker: KafkaBroker) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
            cluster = await admin.describe_cluster()
            assert cluster.cluster_id == kafka_broker.cluster_id
            assert [str(each.address) for each in cluster.brokers] == [
                kafka_broker.bootstrap_servers
            ]
            quorum = await admin.describe_quorum()
            assert [each.node_id for each in quorum.voters] == [quorum.leader_id] == [1]
            (directory,) = await admin.describe_log_dirs()
            assert directory.path == str(kafka_broker.data)
            assert directory.error is None
            assert (await admin.describe_features())["metadata.version"] >= 30
            versions = await admin.describe_api_versions(1)
            assert set(versions) <= set(API)

    run(main)


def test_a_restart_of_the_broker_in_the_middle_loses_nothing(
    kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("restarted")

    async def write(broker: KafkaBroker) -> list[ConsumerRecord]:
        await make_topic(broker, "restarted")
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)
        async with producer:
            for number in range(2000):
                await producer.send("restarted", b"%d" % number, partition=0)
                if number == 1000:
                    await producer.flush()
                    await asyncio.to_thread(broker.kill)
                    starting = asyncio.create_task(asyncio.to_thread(broker.start))
            await starting
        return await read(broker, "restarted", 2000)

    with KafkaBroker.started(kafka_broker.kafka, folder, kafka_broker.options) as broker:
        records = run(lambda: write(broker))
    assert [each.value for each in records] == [b"%d" % number for number in range(2000)]


def test_the_memory_of_a_producer_is_asked_for_by_describe_producers(
    broker: Broker,
) -> None:
    async def main() -> None:
        await make_topic(broker, "producers")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await (await producer.send_many("producers", [b"v"] * 3, partition=0))
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                (active,) = await admin.describe_producers(TopicPartition("producers", 0))
            assert (active.epoch, active.last_sequence) == (0, 2)

    run(main)
