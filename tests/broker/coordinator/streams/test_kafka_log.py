"""A log of a streams group that Apache Kafka wrote: read, it describes the group as Kafka did."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moldau.broker.coordinator.group.streams.group import StreamsGroup
from moldau.broker.settings import ResourceSettings, group_settings
from moldau.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from tests.broker.coordinator.classic.world import SmallWorld
from tests.broker.coordinator.streams.topologies import Topics

GROUP: Final = "g"
KEPT: Final = Path(__file__).with_name("kafka_log.txt").read_text(encoding="ascii")
LINES: Final = [line for line in KEPT.splitlines() if not line.startswith("#")]
RECORDS: Final = [
    (bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
    for key, value in (line.split() for line in LINES[:-1])
]


def kafkas_description() -> DescribedGroup:
    response = StreamsGroupDescribeResponse.decode(memoryview(bytes.fromhex(LINES[-1])), 0)
    (found,) = response.groups
    found.members.sort(key=lambda member: member.member_id)
    found.assignor_name = "sticky"  # since version 1
    return found


class StreamsWorld(SmallWorld):
    """A shard of streams groups without settings of their own."""

    def group_settings(self, group_id: str) -> ResourceSettings:
        return group_settings(group_id, {}, self.settings)


def test_the_group_is_what_kafka_describes() -> None:
    world = StreamsWorld()
    world.cluster = Topics(lines=2, app_count_repartition=2, app_count_changelog=2)
    group = StreamsGroup(GROUP, world)
    for key, value in RECORDS:
        group.replay(*GROUP_LOG.decode(key, value))
    assert group.describe() == kafkas_description()


def test_records_are_written_as_kafka_writes_them() -> None:
    for key, value in RECORDS:
        record_key, record_value = GROUP_LOG.decode(key, value)
        assert GROUP_LOG.encode_key(record_key) == key
        if record_value is not None:
            assert GROUP_LOG.encode_value(record_value, 0) == value
