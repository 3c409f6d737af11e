"""`__consumer_offsets` of Apache Kafka, opened by us, and ours, opened by Apache Kafka.

Groups of both protocols are made by librdkafka; whoever takes the directory over finds the groups
where they were, and members go on at what was committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.records import walk
from tests.conformance.broker import MoldauBroker
from tests.conformance.filled import TOPIC, fill
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker, run_tool

confluent_kafka: Any = pytest.importorskip("confluent_kafka")
admin: Any = pytest.importorskip("confluent_kafka.admin")

pytestmark = pytest.mark.real

QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "group.consumer.assignment.interval.ms": "0",
}
DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"

Positions = Mapping[int, tuple[int, str]]


def consume(bootstrap: str, group: str, protocol: str, count: int) -> None:
    """A member that takes so many records, commits them with a note, and leaves."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    taken: Counter[int] = Counter()
    positions: dict[int, int] = {}
    while taken.total() < count:
        for message in consumer.consume(1, 30):
            assert message.error() is None, message.error()
            taken[message.partition()] += 1
            positions[message.partition()] = message.offset() + 1
    offsets = [
        confluent_kafka.TopicPartition(TOPIC, index, offset, f"note of {group}")
        for index, offset in positions.items()
    ]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def positions_of(bootstrap: str, group: str) -> Positions:
    """What is committed, with its note."""
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    asked = confluent_kafka.ConsumerGroupTopicPartitions(group)
    found = client.list_consumer_group_offsets([asked])[group].result()
    return {each.partition: (each.offset, each.metadata) for each in found.topic_partitions}


def groups_of(bootstrap: str) -> dict[str, tuple[str, str]]:
    """State and type of each group; of none, while a broker still reads them."""
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    listed = client.list_consumer_groups().result()
    if listed.errors:
        return {}
    return {each.group_id: (each.state.name, each.type.name) for each in listed.valid}


GROUPS: Final = {"old": ("EMPTY", "CLASSIC"), "new": ("EMPTY", "CONSUMER")}


def both_consume(bootstrap: str, count: int) -> dict[str, Positions]:
    consume(bootstrap, "old", "classic", count)
    consume(bootstrap, "new", "consumer", count)
    return {group: positions_of(bootstrap, group) for group in GROUPS}


def committed_counts(positions: Mapping[str, Positions]) -> list[int]:
    return [sum(offset for offset, _ in each.values()) for each in positions.values()]


def found(bootstrap: str, positions: Mapping[str, Positions]) -> bool:
    """Are the groups and their offsets there?"""
    if groups_of(bootstrap) != GROUPS:
        return False
    return all(positions_of(bootstrap, group) == each for group, each in positions.items())


def value_versions(data: Path) -> set[tuple[int, int]]:
    """Which record types stand in the log, each with the versions of its values."""
    versions = set()
    for path in data.glob("__consumer_offsets-*/*.log"):
        for batch in walk(path.read_bytes()):
            for record in batch.records():
                assert record.key is not None
                if record.value is not None:
                    GROUP_LOG.decode(record.key, record.value)
                    kind = int.from_bytes(record.key[:2], "big")
                    versions.add((kind, int.from_bytes(record.value[:2], "big")))
    return versions


def dumped(data: Path) -> str:
    """What Kafka's own tool reads in the partitions."""
    told = ""
    for path in sorted(data.glob("__consumer_offsets-*/*.log")):
        told += run_tool(fetch_or_skip(), DUMP, "--offsets-decoder", "--files", str(path))
    return told


def test_groups_of_apache_kafka_go_on_with_us_and_back(tmp_path: Path) -> None:
    kafka = KafkaBroker(fetch_or_skip(), tmp_path, BrokerOptions(properties=QUICK))
    ours = MoldauBroker(tmp_path, "--config", str(tmp_path / "server.properties"))
    try:
        kafka.start()
        fill(kafka.bootstrap_servers)
        positions = both_consume(kafka.bootstrap_servers, 10)
        assert committed_counts(positions) == [10, 10]
        eventually(lambda: found(kafka.bootstrap_servers, positions), within_s=30)
        kafka.stop()
        written_by_kafka = value_versions(kafka.data)

        with ours:
            eventually(lambda: found(ours.bootstrap_servers, positions), within_s=30)
            positions = both_consume(ours.bootstrap_servers, 12)
            assert committed_counts(positions) == [22, 22]
        assert value_versions(kafka.data) == written_by_kafka
        told = dumped(kafka.data)

        kafka.start()
        eventually(lambda: found(kafka.bootstrap_servers, positions), within_s=30)
        assert committed_counts(both_consume(kafka.bootstrap_servers, 18)) == [40, 40]
        kafka.stop()
    finally:
        kafka.kill()
    assert "note of new" in told
    assert "note of old" in told
    print(told[:3000])
