"""What a type checker knows of a consumer's records. mypy, which checks this file, is the judge."""

from __future__ import annotations

from typing import Any, assert_type

from moldau.client import Consumer, ConsumerRecord, PartitionRecords
from moldau.client.sync import Consumer as SyncConsumer
from tests.client.world import BOOTSTRAP


def number(data: bytes) -> int:
    return int(data)


def text(data: bytes) -> str:
    return data.decode()


def test_keys_and_values_have_the_types_of_their_deserializers() -> None:
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
