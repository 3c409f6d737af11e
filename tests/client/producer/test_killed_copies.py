"""A copy by two workers that are killed hard: the output equals the input, each record once.

MOLDAU_COPY_KILLS says how many kills there are; the deep run has 25.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.client.producer.transaction_space import PARTITIONS, Space
from tests.peers.either_broker import Broker
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = pytest.mark.real

KILLS_DEEP = int(os.environ.get("MOLDAU_COPY_KILLS", "25"))
ROUND = 60
WORKERS = 2
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1500",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}


@pytest.fixture(scope="module")
def quick_moldau() -> Iterator[SyncEmbeddedBroker]:
    """A broker that soon notices a member of a KIP-848 group that is gone."""
    with SyncEmbeddedBroker(QUICK) as broker:
        yield broker


class Copies:
    """Two workers of one group."""

    def __init__(self, broker: Broker, protocol: str, left: ExitStack) -> None:
        self.space = Space(broker)
        self.source = f"in-{self.space.topic}"
        self.protocol = protocol
        self.left = left
        self.written = 0
        self.admin = left.enter_context(Admin(bootstrap_servers=self.space.servers))
        for topic in (self.source, self.space.topic):
            self.admin.create_topic(NewTopic(topic, PARTITIONS, 1))
        self.producer = left.enter_context(Producer(bootstrap_servers=self.space.servers))
        self.workers = [self.started(index) for index in range(WORKERS)]

    def started(self, index: int) -> subprocess.Popen[bytes]:
        return self.left.enter_context(
            process(
                *(self.space.servers, self.source, self.space.topic),
                *(f"{self.space.name}-{index}", self.protocol),
            )
        )

    def write(self) -> None:
        for number in range(self.written, self.written + ROUND):
            self.producer.send(self.source, b"%d" % number, partition=number % PARTITIONS)
        self.producer.flush()
        self.written += ROUND

    def copied(self) -> int:
        """How many records the group's committed offsets cover."""
        found = self.admin.group_offsets(self.space.topic, require_stable=True)
        return sum(each.offset for each in found.values())

    def kill(self, index: int) -> None:
        worker = self.workers[index]
        assert worker.poll() is None, "a worker ended by itself"
        worker.send_signal(signal.SIGKILL)
        worker.wait(30)
        self.workers[index] = self.started(index)


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    module = "tests.client.producer.copying"
    started = subprocess.Popen([sys.executable, "-m", module, *arguments])  # noqa: S603
    try:
        yield started
    finally:
        started.kill()
        started.wait(30)


def run(broker: Broker, protocol: str, kills: int) -> None:
    with ExitStack() as left:
        copies = Copies(broker, protocol, left)
        for kill in range(kills):
            before = copies.written
            copies.write()
            eventually(lambda enough=before + 5: copies.copied() >= enough, within_s=120)  # type: ignore[misc]
            copies.kill(kill % WORKERS)
        copies.write()
        eventually(lambda: copies.copied() >= copies.written, within_s=120)
    expected = [b"%d" % number for number in range(copies.written)]
    asyncio.run(copies.space.check(expected))
    check_with_librdkafka(copies.space, expected)


def check_with_librdkafka(space: Space, expected: list[bytes]) -> None:
    """What librdkafka reads with read_committed."""
    confluent_kafka: Any = pytest.importorskip("confluent_kafka", reason="a peer: make peers")
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": space.servers,
            "group.id": f"theirs-{uuid4()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    reader.assign(
        [confluent_kafka.TopicPartition(space.topic, index, 0) for index in range(PARTITIONS)]
    )
    found: list[bytes] = []
    ends = 0
    while ends < PARTITIONS:
        message = reader.poll(30)
        assert message is not None, "no end came"
        if message.error() is None:
            found.append(message.value())
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ends += 1
    reader.close()
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_workers_that_are_killed_copy_each_record_once(
    quick_moldau: SyncEmbeddedBroker, protocol: str
) -> None:
    run(quick_moldau, protocol, 3)


@pytest.mark.deep
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_many_kills_change_nothing(quick_moldau: SyncEmbeddedBroker, protocol: str) -> None:
    run(quick_moldau, protocol, KILLS_DEEP)


@pytest.mark.deep
def test_on_apache_kafka_too(kafka_broker: KafkaBroker) -> None:
    run(kafka_broker, "classic", KILLS_DEEP)
