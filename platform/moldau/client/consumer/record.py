"""One record that was read, and where it is. No IO."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.client.consumer.origin import UNKNOWN, Origin, TimestampType
from moldau.client.consumer.records import PartitionRecords
from moldau.records import Headers


class ConsumerRecord(NamedTuple):
    """One record, and where it is. Key and value are bytes, None where there is none, or what the
    consumer's deserializers made of them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()
    origin: Origin = UNKNOWN

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the timestamp is the producer's (CreateTime) or the broker's."""
        return self.origin.timestamp_type

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that took the record; -1 if nobody knows."""
        return self.origin.leader_epoch


def whole_records(part: PartitionRecords) -> list[ConsumerRecord]:
    """Those of a part, each with its topic, partition and origin."""
    topic, partition, origin = part.topic, part.partition, part.origin
    return [
        each
        if isinstance(each, ConsumerRecord)
        else ConsumerRecord(
            topic,
            partition,
            each.offset,
            each.timestamp,
            each.key,
            each.value,
            each.headers,
            origin,
        )
        for each in part.records
    ]
