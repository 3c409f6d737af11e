"""Real processes: leaders are killed with kill -9 again and again, and producers lose nothing; all
nodes are killed together, and no end is reported below what was acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Thread

import pytest

from moldau.client import LATEST
from moldau.client.sync import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.link.metadata import Topic
from moldau.testing import Cluster

pytestmark = pytest.mark.real

PARTITIONS = 3
CYCLES = 3
PAUSE_S = 0.002
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


class Sending:
    """Numbers to each partition in turn; which of them were acknowledged, in which place."""

    def __init__(self) -> None:
        self.places: dict[bytes, tuple[int, int]] = {}
        self.errors: list[str] = []
        self._is_ending = Event()
        self._thread = Thread(target=self._run)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()

    def await_more(self, count: int) -> None:
        wanted = len(self.places) + count
        until(lambda: len(self.places) >= wanted, f"{count} more records")

    def _run(self) -> None:
        number = 0
        while not self._is_ending.wait(PAUSE_S):
            self.send(number % PARTITIONS, b"%d" % number)
            number += 1
        self.finish()

    def send(self, partition: int, value: bytes) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError


class Ours(Sending):
    """moldau's producer, idempotent by default."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__()
        self._topic = topic
        self._producer = Producer(bootstrap_servers=servers, acks="all")
        self._producer.start()

    def send(self, partition: int, value: bytes) -> None:
        def on_delivery(sent: object, error: object) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.places[value] = partition, sent.offset  # type: ignore[attr-defined]

        self._producer.send(self._topic, value, partition=partition, on_delivery=on_delivery)

    def finish(self) -> None:
        self._producer.close()


class Librdkafka(Sending):
    """confluent-kafka's producer, idempotent."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__()
        module = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
        self._topic = topic
        self._producer = module.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 1}
        )

    def send(self, partition: int, value: bytes) -> None:
        def on_delivery(error: object, message: object) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.places[value] = partition, message.offset()  # type: ignore[attr-defined]

        self._producer.produce(self._topic, value, partition=partition, on_delivery=on_delivery)
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(WITHIN_S) == 0


def until(condition: Callable[[], bool], what: str) -> None:
    waiting, tries = Event(), int(WITHIN_S / 0.1)
    for _ in range(tries):
        if condition():
            return
        waiting.wait(0.1)
    raise AssertionError(f"not within {WITHIN_S} s: {what}")


def values_of(servers: str, topic: str, partition: int, last: int) -> list[bytes]:
    """Every value of the partition up to that offset."""
    place = TopicPartition(topic, partition)
    found: list[bytes] = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        for record in consumer:
            found.append(bytes(record.value or b""))
            if record.offset >= last:
                break
    return found


@pytest.mark.parametrize("sender", [Ours, pytest.param(Librdkafka, marks=pytest.mark.deep)])
def test_a_killed_leader_costs_no_record(cluster: Cluster, sender: type[Sending]) -> None:
    servers = cluster.bootstrap_servers
    topic = f"killed-{sender.__name__.lower()}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 3)])

        def described() -> Topic:
            found = admin.describe_topics([topic])[topic]
            assert isinstance(found, Topic)
            return found

        def leader() -> int:
            return described().partitions[0].leader

        def is_whole() -> bool:
            return all(len(each.isr) == 3 for each in described().partitions)

        sending = sender(servers, topic)  # type: ignore[call-arg]
        sending.begin()
        try:
            for _ in range(CYCLES):
                sending.await_more(300)
                victim = leader()
                cluster.kill(victim)
                sending.await_more(300)
                cluster.start(victim)
                until(is_whole, "the node is in sync again")
        finally:
            sending.end()
    assert not sending.errors
    for partition in range(PARTITIONS):
        told = {value: at for value, (where, at) in sending.places.items() if where == partition}
        found = values_of(servers, topic, partition, max(told.values()))
        assert len(found) == len(set(found)), "doubled"
        assert told.keys() <= set(found), "lost"
        assert found == sorted(found, key=int), "in another order"


def ends_of(servers: str, places: list[TopicPartition], *, is_committed: bool) -> dict[int, int]:
    """The ends of the partitions, as soon as the first broker can be asked."""
    found: dict[int, int] = {}

    def is_found() -> bool:
        try:
            with Admin(bootstrap_servers=servers) as admin:
                ends = admin.list_offsets(dict.fromkeys(places, LATEST), is_committed=is_committed)
        except KafkaError:
            return False
        found.update({place.partition: each.offset for place, each in ends.items()})
        return True

    until(is_found, "the ends of all partitions")
    return found


@pytest.mark.parametrize("is_committed", [False, True])
def test_after_all_nodes_died_no_end_is_below_what_was_acknowledged(
    cluster: Cluster, is_committed: bool
) -> None:
    servers = cluster.bootstrap_servers
    topic = f"all-killed-{is_committed}".lower()
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 3)])
    places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    sending = Ours(servers, topic)
    sending.begin()
    try:
        for _ in range(CYCLES):
            sending.await_more(300)
            for each in cluster.node_ids:
                cluster.kill(each)
            lasts = dict.fromkeys(range(PARTITIONS), 0)
            for partition, offset in list(sending.places.values()):
                lasts[partition] = max(offset, lasts[partition])
            for each in cluster.node_ids:
                cluster.launch(each)
            ends = ends_of(servers, places, is_committed=is_committed)
            assert not {at: (ends[at], last) for at, last in lasts.items() if ends[at] <= last}
            for each in cluster.node_ids:
                cluster.await_up(each)
    finally:
        sending.end()
    assert not sending.errors
