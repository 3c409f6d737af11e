"""Consumers read from the replica in their rack (KIP-392): ours and librdkafka, on real processes.

The leader is paused in the midst, and its session does not end: a consumer that can still read
reads from the follower.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.client.sync import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.testing import Cluster
from moldau.testing.cluster import Layout
from tests.peers.eventually import eventually

pytestmark = [pytest.mark.real, pytest.mark.deep]

RACKS = ("rack-1", "rack-2", "rack-3")
LEADER = 2
COUNT = 500
VALUES = [b"%d" % number for number in range(COUNT)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "broker.session.timeout.ms": "600000",
        "replica.lag.time.max.ms": "600000",
    }
    with Cluster(brokers=3, layout=Layout(racks=RACKS), settings=settings) as running:
        yield running


def fill(cluster: Cluster, topic: str) -> None:
    """One partition that broker 2 leads; all replicas have all of it."""
    servers = cluster.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, assignments=[[LEADER, 1, 3]])])
    with Producer(bootstrap_servers=servers, acks="all") as producer:
        for value in VALUES:
            producer.send(topic, value, partition=0)
        producer.flush()


def test_our_consumer(cluster: Cluster) -> None:
    fill(cluster, "ours")
    place = TopicPartition("ours", 0)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, client_rack="rack-3") as consumer:
        consumer.assign([place])

        def read() -> list[bytes]:
            consumer.seek(("ours", 0), 0)
            found: list[bytes] = []
            while len(found) < COUNT:
                parts = consumer.poll(60.0)
                assert parts, "nothing came"
                found += [bytes(each.value or b"") for part in parts for each in part.records]
            return found

        assert read() == VALUES
        cluster.pause(LEADER)
        try:
            assert read() == VALUES
        finally:
            cluster.resume(LEADER)


def test_librdkafka(cluster: Cluster) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    fill(cluster, "theirs")
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.rack": "rack-3",
            "group.id": "rack-reads",
            "enable.auto.commit": False,
        }
    )

    def read() -> list[bytes]:
        consumer.assign([kafka.TopicPartition("theirs", 0, 0)])
        found: list[bytes] = []

        def is_whole() -> bool:
            found.extend(each.value() for each in consumer.consume(COUNT, 0.2) if not each.error())
            return len(found) >= COUNT

        eventually(is_whole, within_s=60)
        return found

    try:
        assert read() == VALUES
        cluster.pause(LEADER)
        try:
            assert read() == VALUES
        finally:
            cluster.resume(LEADER)
    finally:
        consumer.close()
