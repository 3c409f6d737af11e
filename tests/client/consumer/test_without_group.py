"""A consumer without a group: it subscribes to whole topics, and seeks by dates and ages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from moldau.client.sync import Admin, Consumer, NewTopic, Producer, RebalanceListener
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.testing import SyncEmbeddedBroker
from tests.peers.eventually import eventually

DAY = timedelta(days=1)


def create(broker: SyncEmbeddedBroker, topic: str, partitions: int) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(NewTopic(topic, partitions=partitions))


def read(consumer: Consumer, count: int) -> list[bytes]:
    """The values of the next records, once there are so many."""
    found: list[bytes] = []

    def has_read() -> bool:
        found.extend(each.value or b"" for part in consumer.poll(0.2) for each in part.records)
        return len(found) >= count

    eventually(has_read)
    return sorted(found)


def consumer_of(broker: SyncEmbeddedBroker) -> Consumer:
    return Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")


def test_it_reads_all_partitions_also_those_that_are_added(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    create(moldau_broker, moldau_topic, 2)
    servers = moldau_broker.bootstrap_servers
    with (
        Producer(bootstrap_servers=servers) as producer,
        Admin(bootstrap_servers=servers) as admin,
        Consumer(
            {"metadata.max.age.ms": "300"}, bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer,
    ):
        consumer.subscribe(moldau_topic)
        for partition in (0, 1):
            producer.send_and_wait(moldau_topic, b"%d" % partition, partition=partition)
        assert read(consumer, 2) == [b"0", b"1"]
        admin.create_partitions(moldau_topic, 3)
        eventually(lambda: len(admin.partitions(moldau_topic)) == 3)
        eventually(lambda: bool(consumer.poll(0.1)) or len(consumer.assignment) == 3)
        producer.send_and_wait(moldau_topic, b"2", partition=2)
        assert read(consumer, 1) == [b"2"]


def test_a_pattern_finds_topics_that_are_made_later(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    settings = {"metadata.max.age.ms": "300", "auto.offset.reset": "earliest"}
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(settings, bootstrap_servers=servers) as consumer,
    ):
        consumer.subscribe(pattern=f"{moldau_topic}-.*")
        for name in ("a", "b"):
            create(moldau_broker, f"{moldau_topic}-{name}", 1)
            producer.send_and_wait(f"{moldau_topic}-{name}", name.encode())
        assert read(consumer, 2) == [b"a", b"b"]
        consumer.unsubscribe()
        assert consumer.assignment == []


def has(consumer: Consumer, wanted: list[TopicPartition]) -> bool:
    return consumer.poll(0.1) == [] and consumer.assignment == wanted


def test_another_subscription_gives_up_the_partitions_of_the_first(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    for name in ("a", "b"):
        create(moldau_broker, f"{moldau_topic}-{name}", 1)
    with consumer_of(moldau_broker) as consumer:
        for name in ("a", "b"):
            wanted = [TopicPartition(f"{moldau_topic}-{name}", 0)]
            consumer.subscribe(wanted[0].topic)
            eventually(partial(has, consumer, wanted))


def test_what_needs_a_group_says_so(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> None:
    with consumer_of(moldau_broker) as consumer:
        with pytest.raises(KafkaError, match="needs a group") as caught:
            consumer.subscribe(moldau_topic, listener=RebalanceListener())
        assert caught.value.code is ErrorCode.INVALID_GROUP_ID


def test_a_time_is_a_number_a_date_an_age_or_text(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    now = datetime.now(UTC)
    moments = [now - 3 * DAY, now - DAY, now]
    servers = moldau_broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        for moment in moments:
            value = b"%d" % moments.index(moment)
            at_ms = int(moment.timestamp() * 1000)
            producer.send_and_wait(moldau_topic, value, partition=0, timestamp_ms=at_ms)
    with consumer_of(moldau_broker) as consumer:
        consumer.assign([(moldau_topic, 0)])
        two_days_ago = now - 2 * DAY
        text = two_days_ago.isoformat()
        for time in (two_days_ago, -2 * DAY, "-2d", text, int(two_days_ago.timestamp() * 1000)):
            consumer.seek_to_time(time)
            assert read(consumer, 2) == [b"1", b"2"]
        for wrong in (datetime(2026, 1, 1), "yesterday", timedelta(days=-40_000)):
            with pytest.raises(ValueError, match=r"zone|is no time|1970"):
                consumer.seek_to_time(wrong)
