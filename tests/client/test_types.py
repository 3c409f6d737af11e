"""What a type checker knows of records and partitions. mypy checks this file and is the judge."""

from __future__ import annotations

from typing import Any, assert_type

from moldau.client import Consumer, ConsumerRecord, PartitionRecords, Producer, TopicPartition
from moldau.client.serdes import StringSerializer
from moldau.client.sync import Consumer as SyncConsumer
from moldau.client.sync import Producer as SyncProducer
from tests.client.world import BOOTSTRAP


def number(data: bytes) -> int:
    return int(data)


def text(data: bytes) -> str:
    return data.decode()


def digits(value: int) -> bytes:
    return b"%d" % value


def test_a_consumers_keys_and_values_have_the_types_of_their_deserializers() -> None:
    made = Consumer(bootstrap_servers=BOOTSTRAP, key_deserializer=number, value_deserializer=text)
    assert_type(made, Consumer[int, str])
    blocking = SyncConsumer(bootstrap_servers=BOOTSTRAP, value_deserializer=text)
    assert_type(blocking, SyncConsumer[Any, str])

    async def read(consumer: Consumer[int, str]) -> None:
        async for record in consumer:
            assert_type(record, ConsumerRecord[int, str])
            assert_type(record.value, str)
        assert_type(await consumer.poll(), list[PartitionRecords[int, str]])
        assert_type((await consumer.getone()).key, int)

    assert read.__annotations__
    named: Consumer[str, bytes | None] = Consumer(
        bootstrap_servers=BOOTSTRAP, key_deserializer="string"
    )
    assert made.settings is not blocking.settings is not named.settings


def test_a_producer_takes_keys_and_values_of_the_types_of_its_serializers() -> None:
    made = Producer(
        bootstrap_servers=BOOTSTRAP, key_serializer=digits, value_serializer=StringSerializer()
    )
    assert_type(made, Producer[int, str])
    blocking = SyncProducer(bootstrap_servers=BOOTSTRAP, value_serializer=StringSerializer())
    assert_type(blocking, SyncProducer[Any, str])

    async def write(producer: Producer[int, str]) -> None:
        await producer.send("t", "text", key=1)
        await producer.send("t", None)  # a tombstone, which no serializer sees
        await producer.send("t", b"bytes")  # type: ignore[arg-type]
        await producer.send_and_wait("t", "text", key="1")  # type: ignore[arg-type]

    assert write.__annotations__
    named = Producer[str, int](bootstrap_servers=BOOTSTRAP, key_serializer="string")
    assert made.settings is not blocking.settings is not named.settings


def test_a_partition_is_a_topic_partition_or_a_pair() -> None:
    async def ask(consumer: Consumer[int, str], where: TopicPartition) -> None:
        for partition in (where, ("t", 0)):
            consumer.seek(partition, 5)
            consumer.pause([partition])
            assert_type(consumer.position(partition), int | None)
            assert_type(consumer.lag(partition), int | None)
        assert_type(await consumer.end_offsets([where]), dict[TopicPartition, int])
        consumer.seek("t", 0, 5)  # type: ignore[arg-type, call-arg]

    assert ask.__annotations__
