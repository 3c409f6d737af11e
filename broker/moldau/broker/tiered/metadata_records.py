"""The records of `__remote_log_metadata` as events, and the partition that they go to.

Kafka's schemas and frame are in `moldau.protocol.schemas.storage` and `framed_log`; here their
fields become a segment, an update or a deletion, and back. The record's end offset is inclusive,
a segment's is exclusive: this module alone converts between them.

A record of the fourth type, the snapshot, names no partition. Kafka writes it to files beside the
topic and never into it, so here it is malformed. What the topic has that is malformed raises
MalformedMessage: the reader decides what becomes of the partition.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from moldau.broker.log.leader_epochs import EpochEntry
from moldau.broker.tiered.remote_segment import (
    DeletionState,
    PartitionDeletion,
    RemoteEvent,
    RemoteSegment,
    SegmentId,
    SegmentState,
    SegmentUpdate,
)
from moldau.errors import MalformedMessage
from moldau.ids import Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.framed_log import REMOTE_LOG
from moldau.protocol.schemas.storage import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from moldau.protocol.schemas.versioned import Readable
from moldau.records import partition_for_key

_S = TypeVar("_S", SegmentState, DeletionState)
_VERSION: Final = 0
_HALVES: Final = struct.Struct(">II")
_INT32: Final = struct.Struct(">I")


def metadata_partition(topic_id: Uuid, partition: int, partition_count: int) -> int:
    """Return the partition of `__remote_log_metadata` that has the records of a partition, as
    Kafka's RemoteLogMetadataTopicPartitioner computes it."""
    hashed = 1
    for number in (_hash_long(topic_id[8:]), _hash_long(topic_id[:8]), partition):
        hashed = (31 * hashed + number) & 0xFFFFFFFF
    return partition_for_key(_INT32.pack(hashed), partition_count)


def _hash_long(eight_bytes: bytes) -> int:
    """Return Java's `Long.hashCode`."""
    high, low = _HALVES.unpack(eight_bytes)
    hashed: int = high ^ low
    return hashed


def encode(event: RemoteEvent) -> bytes:
    """Return the value of the record that says this."""
    return REMOTE_LOG.encode(_as_record(event), _VERSION)


def decode(value: Readable) -> RemoteEvent:
    """Return what the value of a record says. Raise MalformedMessage."""
    record, _ = REMOTE_LOG.decode(value)
    match record:
        case RemoteLogSegmentMetadataRecord():
            return _as_segment(record)
        case RemoteLogSegmentMetadataUpdateRecord():
            topic, segment_id = _named(record.remote_log_segment_id)
            state = _state(SegmentState, record.remote_log_segment_state)
            by, when = record.broker_id, record.event_timestamp_ms
            return SegmentUpdate(segment_id, topic, state, by, when, record.custom_metadata)
        case RemotePartitionDeleteMetadataRecord():
            where = record.topic_id_partition
            return PartitionDeletion(
                where.id,
                where.partition,
                where.name,
                _state(DeletionState, record.remote_partition_delete_state),
                record.broker_id,
                record.event_timestamp_ms,
            )
        case _:
            raise MalformedMessage("a record without a partition", type=type(record).__name__)


def _as_record(event: RemoteEvent) -> MetadataRecord:
    match event:
        case RemoteSegment():
            event.check()
            return RemoteLogSegmentMetadataRecord(
                remote_log_segment_id=_id_entry(event.topic, event.id),
                start_offset=event.start_offset,
                end_offset=event.end_offset - 1,
                broker_id=event.broker_id,
                max_timestamp_ms=event.max_timestamp_ms,
                event_timestamp_ms=event.event_ms,
                segment_leader_epochs=[
                    SegmentLeaderEpochEntry(leader_epoch=epoch, offset=start_offset)
                    for epoch, start_offset in event.leader_epochs
                ],
                segment_size_in_bytes=event.size_bytes,
                custom_metadata=event.custom_metadata,
                remote_log_segment_state=event.state,
                txn_index_empty=not event.has_transaction_index,
            )
        case SegmentUpdate():
            return RemoteLogSegmentMetadataUpdateRecord(
                remote_log_segment_id=_id_entry(event.topic, event.id),
                broker_id=event.broker_id,
                event_timestamp_ms=event.event_ms,
                custom_metadata=event.custom_metadata,
                remote_log_segment_state=event.state,
            )
        case PartitionDeletion():
            return RemotePartitionDeleteMetadataRecord(
                topic_id_partition=TopicIdPartitionEntry(
                    name=event.topic, id=event.topic_id, partition=event.partition
                ),
                broker_id=event.broker_id,
                event_timestamp_ms=event.event_ms,
                remote_partition_delete_state=event.state,
            )


def _as_segment(record: RemoteLogSegmentMetadataRecord) -> RemoteSegment:
    topic, segment_id = _named(record.remote_log_segment_id)
    epochs = ((each.leader_epoch, each.offset) for each in record.segment_leader_epochs)
    segment = RemoteSegment(
        segment_id,
        topic,
        record.start_offset,
        record.end_offset + 1,
        record.max_timestamp_ms,
        record.segment_size_in_bytes,
        tuple(EpochEntry(*pair) for pair in sorted(epochs)),
        record.broker_id,
        record.event_timestamp_ms,
        _state(SegmentState, record.remote_log_segment_state),
        record.custom_metadata,
        has_transaction_index=not record.txn_index_empty,
    )
    segment.check()
    return segment


def _id_entry(topic: str, segment: SegmentId) -> RemoteLogSegmentIdEntry:
    partition = TopicIdPartitionEntry(name=topic, id=segment.topic_id, partition=segment.partition)
    return RemoteLogSegmentIdEntry(topic_id_partition=partition, id=segment.id)


def _named(entry: RemoteLogSegmentIdEntry) -> tuple[str, SegmentId]:
    where = entry.topic_id_partition
    return where.name, SegmentId(where.id, where.partition, entry.id)


def _state(states: type[_S], number: int) -> _S:
    try:
        return states(number)
    except ValueError:
        raise MalformedMessage(f"unknown {states.__name__}", found=number) from None
