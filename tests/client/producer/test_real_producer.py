"""The producer against real brokers, read by others' clients: what it says is what they find."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from moldau.client import Admin, NewTopic, Producer, ProducerInterceptor, Sent
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import partition_for_key
from tests.client.choices import Compression
from tests.peers.either_broker import Broker
from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = pytest.mark.real
PARTITIONS = 3


def read_by_librdkafka(broker: Broker, topic: str, count: int) -> list[Any]:
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"}
    )
    consumer.assign([confluent.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[Any] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(500, 1.0)
    consumer.close()
    assert [each.error() for each in found] == [None] * count
    return found


def run(main: Any) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(60):
            return await main()

    return asyncio.run(bounded())


async def make_topic(broker: Broker, name: str, **configs: str) -> None:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(NewTopic(name, PARTITIONS, 1, settings))


def test_others_find_every_record_where_its_delivery_says(broker: Broker) -> None:
    told: dict[tuple[int, int], bytes] = {}

    async def main() -> None:
        await make_topic(broker, "producer-told")
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, batch_size=2000, linger_ms=1
        ) as producer:
            for number in range(3000):
                value = b"%d" % number

                def note(sent: Sent | None, error: KafkaError | None, value: bytes = value) -> None:
                    assert error is None
                    assert sent is not None
                    told[sent.partition, sent.offset] = value

                key = b"key-%d" % (number % 50) if number % 2 else None
                await producer.send("producer-told", value, key=key, on_delivery=note)
            await producer.flush()
            metrics = producer.metrics()["producer-metrics"]
            assert metrics["record-send-total"] == 3000
            assert metrics["requests-in-flight"] == 0

    run(main)
    assert len(told) == 3000
    found = read_by_librdkafka(broker, "producer-told", 3000)
    assert {(each.partition(), each.offset()): each.value() for each in found} == told
    for each in found:
        if each.key() is not None:
            assert each.partition() == partition_for_key(each.key(), PARTITIONS)
    assert min(Counter(each.partition() for each in found).values()) > 100


def test_others_read_what_an_arrow_table_said(broker: Broker) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    values = [b"v%d" % number if number % 9 else None for number in range(2000)]
    headers = [[("n", b"%d" % number)] if number % 3 else None for number in range(2000)]
    partitions = [number % PARTITIONS for number in range(2000)]
    stamps = [1_700_000_000_000 + number for number in range(2000)]
    table = pyarrow.table(
        {
            "value": pyarrow.array(values, pyarrow.binary()),
            "headers": pyarrow.array(headers, pyarrow.map_(pyarrow.string(), pyarrow.binary())),
            "timestamp": pyarrow.array(stamps).cast(pyarrow.timestamp("ms")),
            "partition": partitions,
        }
    )

    async def main() -> None:
        await make_topic(broker, "table", retention_ms="-1")  # its times are years ago
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, compression_type="zstd"
        ) as producer:
            ranges = await (await producer.send_many("table", table))
            assert sum(each.records for each in ranges) == 2000
            column = pyarrow.array(values, pyarrow.binary())
            await (await producer.send_many("table", column, partition=0))

    run(main)
    by_partition = defaultdict(list)
    for each in read_by_librdkafka(broker, "table", 4000):
        by_partition[each.partition()].append(each)
    for partition in range(PARTITIONS):
        rows = range(partition, 2000, PARTITIONS)
        part = by_partition[partition]
        assert [each.value() for each in part[: len(rows)]] == [values[row] for row in rows]
        assert [each.headers() for each in part[: len(rows)]] == [headers[row] for row in rows]
        assert [each.timestamp()[1] for each in part[: len(rows)]] == [stamps[row] for row in rows]
        assert len(part) == len(rows) + (2000 if partition == 0 else 0)
    assert [each.value() for each in by_partition[0][-2000:]] == values


def test_what_the_broker_refuses_is_told_by_every_way(broker: Broker) -> None:
    heard: list[MoldauError | None] = []

    class Noting(ProducerInterceptor):
        def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
            heard.append(error)

    async def main() -> None:
        await make_topic(broker, "producer-narrow", max_message_bytes="1000")
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, interceptors=[Noting()], max_block_ms=3000
        ) as producer:
            delivery = await producer.send("producer-narrow", bytes(2000), partition=0)
            with pytest.raises(KafkaError) as caught:
                await delivery
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
            await (await producer.send("producer-narrow", b"small", partition=0))
            with pytest.raises(KafkaError) as caught:
                await producer.send("no such topic!", b"v")
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
            assert caught.value.context["topic"] == "no such topic!"

    run(main)
    codes = [each.code if isinstance(each, KafkaError) else None for each in heard]
    assert codes == [ErrorCode.MESSAGE_TOO_LARGE, None, ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batches_that_are_too_large_for_a_topic_go_in_parts(
    broker: Broker, codec: Compression
) -> None:
    random = Random(codec)
    values = [b"%05d " % number + random.randbytes(50) for number in range(4000)]
    topic = f"producer-parts-{codec}"

    async def main() -> None:
        await make_topic(broker, topic, max_message_bytes="2000")
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, compression_type=codec
        ) as producer:
            deliveries = [await producer.send(topic, each, partition=0) for each in values[:2000]]
            large = await producer.send(topic, random.randbytes(3000), partition=0)
            deliveries += [await producer.send(topic, each, partition=0) for each in values[2000:]]
            assert [(await each).offset for each in deliveries] == list(range(4000))
            with pytest.raises(KafkaError, match=r"max\.message\.bytes") as caught:
                await large
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
            assert (caught.value.context["topic"], caught.value.context["partition"]) == (topic, 0)
            with suppress(KafkaError):  # the same, unless it was awaited before it failed
                await producer.flush()
            metrics = producer.metrics()["producer-metrics"]
            assert metrics["batch-split-total"] > 0
            assert metrics["record-error-total"] == 1
            await producer.send_many(topic, values, partition=1)
            await producer.flush()
            learned = producer.metrics()["producer-metrics"]
            await producer.send_many(topic, values, partition=1)
            await producer.flush()
            after = producer.metrics()["producer-metrics"]
            again = after["record-retry-total"] - learned["record-retry-total"]
            assert again < 500, "the size is known by now"

    run(main)
    by_partition = defaultdict(list)
    for each in read_by_librdkafka(broker, topic, 12_000):
        by_partition[each.partition()].append(each.value())
    assert by_partition == {0: values, 1: values * 2}
