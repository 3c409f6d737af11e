"""Apache Kafka goes on with a group that we wrote, and we with one that Kafka wrote.

The same members do the same to both, half of it on one side and, after the log has changed hands in
the middle of a rebalance, the rest on the other: they must hear what they would have heard without
that. And what Kafka wrote must describe the group as Kafka did, down to the metadata hash.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.coordinator.group.consumer.group import described
from moldau.broker.coordinator.outcome import LogRecord
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.consumer_group_describe import DescribedGroup
from moldau.protocol.messages.produce import ProduceResponse
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.records import encode_batch, iter_records
from tests.broker.api.requests import produce
from tests.broker.coordinator.classic.wire import Line, prepare
from tests.broker.coordinator.consumer.ours import Ours
from tests.broker.coordinator.consumer.script import TOPICS, Cast
from tests.broker.coordinator.consumer.shard import Shard
from tests.broker.coordinator.consumer.wire import Wire
from tests.broker.coordinator.consumer.world import BOOT_WALL_MS, SETTINGS
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

FIRST = (
    "join a topics=t1+t2 assignor=range",
    "join b topics=t1 instance=i assignor=range",
    "join c regex=%t2.* assignor=range",
    "wait 1000",
    "beat c owns=",
    "beat a owns=told",
    "describe",
)
THEN = (
    "beat a owns=t1:0-5;t2:0-2",
    "beat b",
    "beat a owns=told",
    "beat b",
    "beat c owns=told",
    "describe",
    "commit a t1:0 epoch=2",
    "commit a t1:5 epoch=2",
    "leave-static b",
    "leave c",
    "beat a owns=told",
    "join d topics=t1 instance=i",
    "beat a owns=told",
    "beat d owns=told",
    "describe",
)
NAMED = {
    **SETTINGS,
    "group.consumer.session.timeout.ms": 40_000,
    "offsets.topic.num.partitions": 1,
}
ADMIN_CLIENT = "__admin_client"
"""Kafka lets nobody else write to its own topics."""


def test_a_group_changes_hands_in_the_middle_of_a_rebalance(tmp_path: Path) -> None:
    expected = [*map(Cast(Ours()).perform, (*FIRST, *THEN))]
    options = BrokerOptions(properties={name: str(value) for name, value in NAMED.items()})
    with KafkaBroker.started(fetch_or_skip(), tmp_path / "kafka", options) as kafka:
        prepare(kafka.port, "ready")
        theirs, other = Wire(kafka.port, "theirs"), Wire(kafka.port, "ours")
        from_kafka, from_ours = Cast(theirs), Cast(adopting(other))
        assert [*map(from_kafka.perform, FIRST)] == expected[: len(FIRST)]
        assert [*map(from_ours.perform, FIRST)] == expected[: len(FIRST)]
        kafka_says = theirs.describe()
        assert isinstance(from_ours._peer, Ours)
        hand_over(from_ours._peer.shard.log, kafka.port)
        kafka.stop()

        ours = adopting(theirs)
        ours.shard.log += read_log(kafka.data, theirs.group_id)
        ours.shard.fail_over()
        state = ours.shard.state
        assert kafka_says is not None
        assert ordered(described(state)) == ordered(kafka_says)
        hashed = state.volatile.hashes.of(state.topic_names(), ours.shard.world.cluster)
        assert state.metadata_hash == hashed
        from_kafka._peer = ours
        assert [*map(from_kafka.perform, THEN)] == expected[len(FIRST) :]

        kafka.start()
        prepare(kafka.port, "ready")
        from_ours._peer = other
        assert [*map(from_ours.perform, THEN)] == expected[len(FIRST) :]


def adopting(wire: Wire) -> Ours:
    """Our group of the same name, over the topics that Kafka has, at the time that it is there."""
    ours = Ours()
    ours.group_id, ours.prefix = wire.group_id, wire.prefix
    ours.shard = Shard(named=SETTINGS, group_id=wire.group_id)
    ours.shard.now_ms = 2 * 10**12 - BOOT_WALL_MS  # later than anything that Kafka wrote
    for name, size in TOPICS.items():
        topic_id = wire.topic_id(wire.prefix + name)
        ours.shard.world.cluster.adopt(wire.prefix + name, topic_id, size)
        ours._remember(wire.prefix + name)
    return ours


def ordered(group: DescribedGroup) -> DescribedGroup:
    """Kafka lists members and topics in no order."""
    group.members.sort(key=lambda each: each.member_id)
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            assignment.topic_partitions.sort(key=lambda each: each.topic_id)
            for topic in assignment.topic_partitions:
                topic.partitions.sort()
    return group


def hand_over(log: list[LogRecord], port: int) -> None:
    """Write our records into Kafka's own topic."""
    rows = []
    for record in log:
        key = GROUP_LOG.encode_key(record.key)
        value = None if record.value is None else GROUP_LOG.encode_value(record.value, 0)
        rows.append((BOOT_WALL_MS, key, value, ()))
    request = produce("__consumer_offsets", bytes(encode_batch(rows)), timeout_ms=10_000)
    line = Line(port, ADMIN_CLIENT)
    try:
        line.send(request, 9)
        while (answer := line.receive()) is None:
            pass
    finally:
        line.close()
    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def read_log(data: Path, group_id: str) -> list[LogRecord]:
    """The records of that group in Kafka's files."""
    found = []
    for segment in sorted((data / "__consumer_offsets-0").glob("*.log")):
        for each in iter_records(segment.read_bytes()):
            assert each.key is not None
            key, value = GROUP_LOG.decode(each.key, each.value)
            if getattr(key, "group_id", None) == group_id:
                found.append(LogRecord(key, value, 0))
    return found
