"""Ranges that one consumer reads after the topic was deleted and made again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.client.sync import Admin, Producer, Topic, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.executors.clients import CLIENTS
from moldau.ids import format_uuid
from moldau.spark import fetching
from moldau.spark.ranges import OffsetRange
from moldau.testing import SyncEmbeddedBroker
from tests.spark.topics import make_topic, numbers, send


class Reads:
    """Reads ranges of one topic as an executor does."""

    def __init__(self, broker: SyncEmbeddedBroker, topic: str) -> None:
        self.broker = broker
        self.where = TopicPartition(topic, 0)
        self.settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": topic}

    def topic_id(self) -> str:
        with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            topic = admin.describe_topics([self.where.topic])[self.where.topic]
        assert isinstance(topic, Topic)
        return format_uuid(topic.topic_id)

    def make_again(self, count: int, first: int) -> str:
        with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            admin.delete_topic(self.where.topic)
        make_topic(self.broker, self.where.topic, 1)
        send(self.broker, self.where.topic, numbers(count, first))
        return self.topic_id()

    def __call__(
        self, start: int, end: int, topic_id: str = "", *, strict: bool = False, wait_ms: int = 9000
    ) -> list[int]:
        wanted = OffsetRange(self.where, start, end, topic_id)
        found = fetching.fetch(self.settings, wanted, fails_on_loss=strict, timeout_ms=wait_ms)
        return [
            int(bytes(value or b"")) for part, count in found for value in list(part.values)[:count]
        ]


@pytest.fixture
def read(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> Iterator[Reads]:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(10))
    made = Reads(moldau_broker, moldau_topic)
    yield made
    CLIENTS.clear()


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_consumer_that_read_the_old_topic_reads_the_new_one(read: Reads, has_ids: bool) -> None:
    old = read.topic_id() if has_ids else ""
    assert read(0, 10, old) == list(range(10))
    new = read.make_again(25, 100)

    assert read(0, 25, new if has_ids else "", strict=True) == list(range(100, 125))


def test_what_was_fetched_ahead_of_the_old_topic_is_not_taken_for_the_new_one(read: Reads) -> None:
    assert read(0, 5, read.topic_id()) == [0, 1, 2, 3, 4]
    new = read.make_again(10, 100)

    assert read(5, 10, new, strict=True) == [105, 106, 107, 108, 109]


@pytest.mark.parametrize("has_read", [True, False])
def test_a_range_of_a_topic_that_is_gone_gets_no_record_of_the_new_one(
    read: Reads, has_read: bool
) -> None:
    old = read.topic_id()
    if has_read:
        assert read(0, 10, old) == list(range(10))
    read.make_again(25, 100)

    with pytest.raises(KafkaError, match="deleted and made again: set failOnDataLoss=false"):
        read(5, 10, old, strict=True, wait_ms=600)
    assert read(5, 10, old, wait_ms=600) == []


@pytest.mark.parametrize("has_read", [True, False])
@pytest.mark.parametrize("has_id", [True, False])
def test_a_range_of_a_topic_that_was_deleted_is_a_loss(
    read: Reads, has_read: bool, has_id: bool
) -> None:
    topic_id = read.topic_id() if has_id else ""
    if has_read:
        assert read(0, 5, topic_id) == [0, 1, 2, 3, 4]
    with Admin(bootstrap_servers=read.broker.bootstrap_servers) as admin:
        admin.delete_topic(read.where.topic)

    with pytest.raises(KafkaError, match="the topic or the partition was deleted: set failOnData"):
        read(8, 20, topic_id, strict=True, wait_ms=1500)
    assert read(8, 20, topic_id, wait_ms=1500) == []


@pytest.mark.parametrize("has_id", [True, False])
def test_a_range_behind_the_end_of_the_log_ends_in_time(read: Reads, has_id: bool) -> None:
    topic_id = read.topic_id() if has_id else ""

    assert read(5, 20, topic_id, wait_ms=600) == [5, 6, 7, 8, 9]
    with pytest.raises(KafkaError, match="should hold were deleted: set failOnDataLoss=false"):
        read(15, 20, topic_id, strict=True, wait_ms=600)
    assert read(15, 20, topic_id, wait_ms=600) == []


def test_a_range_of_deleted_records_begins_where_the_log_does(read: Reads) -> None:
    with Admin(bootstrap_servers=read.broker.bootstrap_servers) as admin:
        admin.delete_records({read.where: 6})

    assert read(0, 4, read.topic_id()) == []
    assert read(3, 9, read.topic_id()) == [6, 7, 8]
    with pytest.raises(KafkaError, match="should hold were deleted: set failOnDataLoss=false"):
        read(3, 9, read.topic_id(), strict=True)


class StillClock:
    """Stands where it is put."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_time_that_spark_takes_is_not_taken_for_silence(
    read: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "RealClock", StillClock)
    wanted = OffsetRange(read.where, 0, 20, read.topic_id())
    found = fetching.fetch(read.settings, wanted, fails_on_loss=True, timeout_ms=500)
    assert next(found).length == 10
    monkeypatch.setattr(StillClock, "now", 200.0)
    servers = read.broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, linger_ms=600, batch_size=100_000) as producer:
        producer.send_many(read.where.topic, numbers(10, 10), partition=0)
        assert sum(part.length for part in found) == 10
