"""What real clients are made to do while they are recorded: one function a client.

Each produces, then reads back by assignment, and administers a little. Nothing is read while it is
written, so that the same requests get the same answers whoever's broker it is.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.peers.apache_kafka import fetch
from tests.peers.kafka_broker import run_tool

RECORDS: Final = 40
LONG_AGO_MS: Final = 1_600_000_000_000
# Kafka's broker hears of a topic a little after who made it.
SETTLED_S: Final = 1.0


def librdkafka(bootstrap: str) -> None:
    """confluent-kafka: an idempotent producer, an assigned consumer, the admin client."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    administering: Any = import_module("confluent_kafka.admin")

    common: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "topic.metadata.refresh.interval.ms": -1,
    }
    admin = administering.AdminClient(common)
    _done(admin.create_topics([administering.NewTopic("lib", 2, 1, config={"retention.ms": "-1"})]))
    _settle()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {**common, "compression.type": codec, "enable.idempotence": codec != "none"}
        )
        for number in range(RECORDS):
            producer.produce(
                "lib",
                f"v{number}" * 9,
                key=f"k{number}",
                partition=number % 2,
                timestamp=LONG_AGO_MS,
            )
        assert producer.flush(30) == 0
    consumer = Consumer({**common, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("lib", index, 0) for index in range(2)])
    _until(lambda: len(consumer.consume(500, 0.5)), RECORDS * 5)
    consumer.get_watermark_offsets(TopicPartition("lib", 0), timeout=10)
    consumer.offsets_for_times([TopicPartition("lib", 0, LONG_AGO_MS)], timeout=10)
    consumer.close()
    resource = administering.ConfigResource(administering.ConfigResource.Type.TOPIC, "lib")
    _done(admin.describe_configs([resource]))
    _done(admin.create_partitions([administering.NewPartitions("lib", 3)]))
    _settle()
    _done(admin.delete_records([TopicPartition("lib", 0, 5)]))
    admin.list_topics(timeout=10)
    admin.describe_cluster().result(10)
    _done(admin.delete_topics(["lib"]))


def kafka_python(bootstrap: str) -> None:
    """kafka-python: producers with and without idempotence, an assigned consumer, its admin."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name="kp", num_partitions=2, replication_factor=1)])
    _settle()
    for is_idempotent in (False, True):
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=is_idempotent, compression_type="gzip"
        )
        for number in range(RECORDS):
            producer.send("kp", b"v%d" % number, partition=number % 2, timestamp_ms=LONG_AGO_MS)
        producer.flush(30)
        producer.close(10)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    parts = [TopicPartition("kp", index) for index in range(2)]
    consumer.assign(parts)
    consumer.seek_to_beginning(*parts)
    _until(lambda: sum(map(len, consumer.poll(timeout_ms=500).values())), RECORDS * 2)
    consumer.end_offsets(parts)
    consumer.offsets_for_times(dict.fromkeys(parts, LONG_AGO_MS))
    consumer.close()
    admin.list_topics()
    admin.describe_cluster()
    admin.delete_topics(["kp"])
    admin.close()


def aiokafka(bootstrap: str) -> None:
    """aiokafka: two producers, an assigned consumer."""
    asyncio.run(_aiokafka(bootstrap))


async def _aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    for is_idempotent in (False, True):
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=is_idempotent, compression_type="gzip"
        )
        await producer.start()
        for number in range(RECORDS):
            await producer.send("aio", b"v%d" % number, timestamp_ms=LONG_AGO_MS)
        await producer.flush()
        await producer.stop()
    part = TopicPartition("aio", 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    consumer.assign([part])
    await consumer.seek_to_beginning(part)
    found = 0
    while found < RECORDS * 2:
        found += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
    await consumer.end_offsets([part])
    await consumer.offsets_for_times({part: LONG_AGO_MS})
    await consumer.stop()


def java_tools(bootstrap: str) -> None:
    """Kafka's own command line tools."""
    kafka = fetch()
    tools = "org.apache.kafka.tools."

    def tool(main: str, *arguments: str, given: str = "") -> None:
        run_tool(kafka, main, "--bootstrap-server", bootstrap, *arguments, input_text=given)

    topic = ("--topic", "java")
    tool(
        f"{tools}TopicCommand",
        "--create",
        *topic,
        "--partitions",
        "2",
        "--config",
        "retention.ms=-1",
    )
    given = "".join(f"k{number}:v{number}\n" for number in range(RECORDS))
    reading = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool(f"{tools}ConsoleProducer", *topic, *reading, given=given)
    tool(f"{tools}TopicCommand", "--describe", *topic)
    tool(f"{tools}TopicCommand", "--list")
    for time in ("-1", "-2", "-3", "-4", str(LONG_AGO_MS)):
        tool(f"{tools}GetOffsetShell", *topic, "--time", time)
    tool(f"{tools}TopicCommand", "--alter", *topic, "--partitions", "3")
    entity = ("--entity-type", "topics", "--entity-name", "java")
    changes = "max.message.bytes=2000000,flush.messages=1"
    tool(f"{tools}ConfigCommand", "--alter", *entity, "--add-config", changes)
    tool(f"{tools}ConfigCommand", "--describe", *entity, "--all")
    tool(f"{tools}ConfigCommand", "--alter", *entity, "--delete-config", "flush.messages")
    tool(f"{tools}LogDirsCommand", "--describe", "--topic-list", "java")
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "offsets.json"
        wanted.write_text('{"partitions": [{"topic": "java", "partition": 0, "offset": 1}]}')
        tool(f"{tools}DeleteRecordsCommand", "--offset-json-file", str(wanted))
    tool(f"{tools}MetadataQuorumCommand", "describe", "--status")
    tool(f"{tools}FeatureCommand", "describe")
    tool(f"{tools}BrokerApiVersionsCommand")
    tool(f"{tools}TopicCommand", "--delete", *topic)


CLIENTS: Final[dict[str, Callable[[str], None]]] = {
    "librdkafka": librdkafka,
    "kafka_python": kafka_python,
    "aiokafka": aiokafka,
    "java_tools": java_tools,
}


def _settle() -> None:
    threading.Event().wait(SETTLED_S)


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(30)


def _until(poll: Callable[[], int], wanted: int) -> None:
    found = 0
    for _ in range(60):
        found += poll()
        if found >= wanted:
            return
    raise AssertionError(f"{found} of {wanted} records came")
