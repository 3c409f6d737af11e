"""Transactions of librdkafka's producer: commits, aborts, offsets, fencing. One node, or three."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.nodes import Nodes
from tests.conformance.nodes import nodes as nodes

confluent_kafka: Any = pytest.importorskip("confluent_kafka", reason="a peer: make peers")
pytest.importorskip("confluent_kafka.admin")

pytestmark = pytest.mark.real

WAIT_S = 30
PARTITIONS = 2


def create(nodes: Nodes, topic: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": nodes.bootstrap_servers})
    made = admin.create_topics(
        [confluent_kafka.admin.NewTopic(topic, PARTITIONS, nodes.node_count)]
    )
    made[topic].result(WAIT_S)


def producer(nodes: Nodes, name: str) -> Any:
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": nodes.bootstrap_servers,
            "transactional.id": name,
            "linger.ms": 0,
        }
    )
    made.init_transactions(WAIT_S)
    return made


def consumer(nodes: Nodes, group: str, isolation: str) -> Any:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": nodes.bootstrap_servers,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )


def read(nodes: Nodes, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Everything up to the end of both partitions, sorted."""
    reader = consumer(nodes, f"{topic}-{isolation}", isolation)
    reader.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = reader.poll(WAIT_S)
        assert message is not None, "the end never came"
        if message.error() is None:
            found.append(message.value())
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(message.partition())
    reader.close()
    return sorted(found)


def write(writer: Any, topic: str, *values: bytes) -> None:
    for index, value in enumerate(values):
        writer.produce(topic, value, partition=index % PARTITIONS)
    assert writer.flush(WAIT_S) == 0


def test_what_is_committed_is_read_and_what_is_aborted_is_not(nodes: Nodes) -> None:
    topic = "committed"
    create(nodes, topic)
    writer = producer(nodes, "committed")
    for number in range(6):
        writer.begin_transaction()
        write(writer, topic, b"a%d" % number, b"b%d" % number)
        if number % 2:
            writer.abort_transaction(WAIT_S)
        else:
            writer.commit_transaction(WAIT_S)
    assert read(nodes, topic) == [b"a0", b"a2", b"a4", b"b0", b"b2", b"b4"]
    assert len(read(nodes, topic, "read_uncommitted")) == 12


def test_an_open_transaction_is_not_read_before_it_commits(nodes: Nodes) -> None:
    topic = "open"
    create(nodes, topic)
    writer = producer(nodes, "open")
    writer.begin_transaction()
    write(writer, topic, b"x", b"y")
    assert read(nodes, topic) == []
    assert read(nodes, topic, "read_uncommitted") == [b"x", b"y"]
    writer.commit_transaction(WAIT_S)
    assert read(nodes, topic) == [b"x", b"y"]


def test_offsets_are_committed_and_aborted_with_the_transaction(nodes: Nodes) -> None:
    topic, group = "offsets", "offsets-group"
    create(nodes, topic)
    writer = producer(nodes, "offsets")
    reader = consumer(nodes, group, "read_committed")
    reader.subscribe([topic])
    assert reader.poll(WAIT_S) is not None  # an end of a partition: it has joined
    for offset, commits in ((5, True), (9, False), (7, True)):
        writer.begin_transaction()
        at = [confluent_kafka.TopicPartition(topic, 0, offset)]
        writer.send_offsets_to_transaction(at, reader.consumer_group_metadata(), WAIT_S)
        if commits:
            writer.commit_transaction(WAIT_S)
        else:
            writer.abort_transaction(WAIT_S)
        wanted = [confluent_kafka.TopicPartition(topic, 0)]
        (found,) = reader.committed(wanted, WAIT_S)
        assert found.offset == (offset if commits else 5)
    reader.close()


def test_a_new_instance_fences_the_one_before_and_aborts_its_transaction(nodes: Nodes) -> None:
    topic = "fenced"
    create(nodes, topic)
    old = producer(nodes, "fenced")
    old.begin_transaction()
    write(old, topic, b"old")
    new = producer(nodes, "fenced")
    new.begin_transaction()
    write(new, topic, b"new")
    new.commit_transaction(WAIT_S)
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        old.commit_transaction(WAIT_S)
    assert fenced.value.args[0].fatal()
    assert read(nodes, topic) == [b"new"]


def test_transactions_follow_each_other_at_once_and_aborts_follow_commits(nodes: Nodes) -> None:
    """The markers of a transaction are still being written when the next one begins."""
    topic = "at-once"
    create(nodes, topic)
    writer = producer(nodes, "at-once")
    for number in range(20):
        writer.begin_transaction()
        for index in range(8):
            writer.produce(topic, b"%d-%d" % (number, index), partition=index % PARTITIONS)
        writer.commit_transaction(WAIT_S)
        writer.begin_transaction()
        writer.produce(topic, b"aborted", partition=0)
        writer.abort_transaction(WAIT_S)

    assert read(nodes, topic) == sorted(b"%d-%d" % (n, i) for n in range(20) for i in range(8))
