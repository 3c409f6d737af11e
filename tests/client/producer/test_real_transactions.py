"""Transactions of other producers, on Apache Kafka: what is read of them, and which offsets of a
group they hold back.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Literal

import pytest

from moldau.client import Admin, Consumer, NewTopic, TopicPartition
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

confluent_kafka: Any = pytest.importorskip("confluent_kafka", reason="a peer: make peers")

pytestmark = pytest.mark.real

STEPS = 60


def producer(broker: KafkaBroker, name: str) -> Any:
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 60_000,
            "linger.ms": 0,
        }
    )
    made.init_transactions(30)
    return made


def make_topic(broker: KafkaBroker, topic: str) -> None:
    async def make() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic(topic, 1, 1))

    asyncio.run(make())


def write_overlapping(broker: KafkaBroker, topic: str, random: Random) -> None:
    """Four producers whose transactions overlap, ended in any order, most of them aborted."""
    writers = [producer(broker, f"{topic}-{number}") for number in range(4)]
    is_open = [False] * len(writers)
    for step in range(STEPS):
        number = random.randrange(len(writers))
        if is_open[number] and random.random() < 0.3:
            end(writers[number], commits=random.random() < 0.3)
            is_open[number] = False
            continue
        if not is_open[number]:
            writers[number].begin_transaction()
            is_open[number] = True
        for _ in range(random.randint(1, 3)):
            writers[number].produce(topic, b"%d of %d" % (step, number), partition=0)
        writers[number].flush(30)
    for number in random.sample(range(len(writers)), len(writers)):
        if is_open[number]:
            end(writers[number], commits=random.random() < 0.3)


def end(writer: Any, *, commits: bool) -> None:
    if commits:
        writer.commit_transaction(30)
    else:
        writer.abort_transaction(30)


def seen_by_confluent(broker: KafkaBroker, topic: str) -> list[int]:
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"{topic}-theirs",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while True:
        message = reader.poll(30)
        assert message is not None, "no end came"
        error, offset = message.error(), message.offset()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
            break
        assert offset is not None
        found.append(offset)
    reader.close()
    return found


async def seen_by_us(broker: KafkaBroker, topic: str, **options: Any) -> list[int]:
    where = TopicPartition(topic, 0)
    async with Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", **options
    ) as reader:
        reader.assign([where])
        await reader.seek_to_beginning()
        end_offset = (await reader.end_offsets([where]))[where]
        found: list[int] = []
        async with asyncio.timeout(60):
            while (reader.position(where) or 0) < end_offset:
                for part in await reader.poll(1.0):
                    found += part.offsets()
        return found


@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_of_overlapping_transactions_is_what_confluents_client_reads(
    kafka_broker: KafkaBroker, seed: int
) -> None:
    topic = f"overlapping-{seed}"
    make_topic(kafka_broker, topic)
    write_overlapping(kafka_broker, topic, Random(seed))
    theirs = seen_by_confluent(kafka_broker, topic)
    assert asyncio.run(seen_by_us(kafka_broker, topic)) == theirs
    small = asyncio.run(seen_by_us(kafka_broker, topic, max_partition_fetch_bytes=200))
    assert small == theirs, "also in many fetches"


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_who_begins_waits_for_the_offset_that_an_open_transaction_holds(
    kafka_broker: KafkaBroker, isolation: Literal["read_uncommitted", "read_committed"]
) -> None:
    """Whatever is read: at the one before it, what the transaction covers is worked on again."""
    topic = group = f"held-{isolation.replace('_', '-')}"
    make_topic(kafka_broker, topic)
    where = TopicPartition(topic, 0)
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(20):
        plain.produce(topic, b"%d" % number, partition=0)
    assert plain.flush(30) == 0
    writer = producer(kafka_broker, group)

    def member() -> Consumer:
        return Consumer(
            bootstrap_servers=kafka_broker.bootstrap_servers,
            group_id=group,
            isolation_level=isolation,
            enable_auto_commit=False,
        )

    async def main() -> tuple[int, int]:
        async with member() as reader:
            reader.assign([where])
            await reader.commit({where: 5})
        metadata = confluent_kafka.Consumer(
            {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group}
        )
        writer.begin_transaction()
        offset = confluent_kafka.TopicPartition(topic, 0, 15)
        writer.send_offsets_to_transaction([offset], metadata.consumer_group_metadata(), 30)
        metadata.close()
        async with member() as reader:
            reader.assign([where])
            assert await reader.poll(2.0) == [], "the transaction is open"
            asked = asyncio.ensure_future(reader.committed([where]))
            assert (await asyncio.wait([asked], timeout=1.0))[0] == set()
            await asyncio.to_thread(writer.commit_transaction, 30)
            found = (await reader.poll(30.0))[0].offsets()[0]
            committed = (await asked)[where]
            assert committed is not None
            return found, committed.offset

    assert asyncio.run(main()) == (15, 15)
