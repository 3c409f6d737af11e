"""Columns that are polled and sent, on Apache Kafka and on moldau."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from tests.client.choices import Compression
from tests.client.group.bounded_run import run
from tests.conformance.quick_brokers import quick_kafka as quick_kafka
from tests.conformance.quick_brokers import quick_moldau as quick_moldau
from tests.peers.either_broker import Broker, either

pytestmark = pytest.mark.real

broker = either("quick_kafka", "quick_moldau")
COUNT = 2_000


async def all_columns(consumer: Consumer, count: int) -> list[Any]:
    parts: list[Any] = []
    async with asyncio.timeout(30):
        while sum(map(len, parts)) < count:
            parts += await consumer.poll_batches(1.0)
    return parts


def facts(record: ConsumerRecord) -> tuple[object, ...]:
    """What a copy of the record has, too."""
    return record.offset, record.timestamp, record.key, record.value, record.headers


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_polled_as_columns_and_sent_on_is_the_same(
    broker: Broker, codec: Compression
) -> None:
    names = [f"columns-{codec}", f"columns-copied-{codec}"]
    address = {"bootstrap.servers": broker.bootstrap_servers}

    async def main() -> None:
        async with Admin(address) as admin:
            await admin.create_topics([NewTopic(name, 1, 1) for name in names])
        async with (
            Producer(address, compression_type=codec) as producer,
            Consumer(address, auto_offset_reset="earliest") as consumer,
        ):
            for number in range(COUNT):
                value = None if number % 7 == 0 else b"%d" % number * 10
                headers = [("h", b"%d" % number)] if number % 5 == 0 else []
                await producer.send(
                    names[0],
                    value,
                    key=b"k%d" % number,
                    headers=headers,
                    timestamp_ms=1_700_000_000_000 + number,
                )
            await producer.flush()
            consumer.assign([(names[0], 0)])
            parts = await all_columns(consumer, COUNT)
            for part in parts:
                await producer.send_batch(TopicPartition(names[1], 0), part)
            await producer.flush()
            consumer.assign([(names[1], 0)])
            copied = await all_columns(consumer, COUNT)
        records = [record for part in parts for record in part.records()]
        again = [record for part in copied for record in part.records()]
        assert [facts(each) for each in records] == [facts(each) for each in again]
        assert [each.offset for each in records] == list(range(COUNT))
        assert records[35].value is None
        assert records[35].headers == (("h", b"35"),)
        assert (records[36].key, records[36].value) == (b"k36", b"36" * 10)
        assert records[36].timestamp == 1_700_000_000_036

    run(main)
