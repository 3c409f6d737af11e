"""What the log layer keeps beside the log: producer snapshots and remote segments.

Remote segments are records of `__remote_log_metadata` (KIP-405). They are framed as those of the
metadata log are, but number their types on their own.
"""

from __future__ import annotations

from moldau.protocol.declare import Data, MetadataRecord, Struct, field
from moldau.protocol.types import Bool, Bytes, Int8, Int16, Int32, Int64, String, Uint32, Uuid


class ProducerEntry(Struct):
    """One producer: its last batch and the transaction that it has open, if any."""

    producer_id: Int64
    epoch: Int16
    last_sequence: Int32
    last_offset: Int64
    offset_delta: Int32
    timestamp: Int64
    coordinator_epoch: Int32
    current_txn_first_offset: Int64


class ProducerSnapshot(Data, versions="1", flexible="none"):
    """A `.snapshot` file, after its int16 version: the producers of a partition at an offset."""

    crc: Uint32
    producer_entries: list[ProducerEntry]


class TopicIdPartitionEntry(Struct):
    """A partition, by topic name, topic id and number."""

    name: String
    id: Uuid
    partition: Int32


class RemoteLogSegmentIdEntry(Struct):
    """A segment: its partition and an id that no other segment has."""

    topic_id_partition: TopicIdPartitionEntry
    id: Uuid


class SegmentLeaderEpochEntry(Struct):
    """A leader epoch and the first offset that it has in the segment."""

    leader_epoch: Int32
    offset: Int64


class RemoteLogSegmentMetadataRecord(MetadataRecord, type=0, versions="0", flexible="0+"):
    """A segment that is being uploaded, or is."""

    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: Int32
    # KIP-917: what the remote store noted for itself
    custom_metadata: Bytes | None = field(default=None)
    remote_log_segment_state: Int8
    txn_index_empty: Bool = field(tag=0, default=False)


class RemoteLogSegmentMetadataUpdateRecord(MetadataRecord, type=1, versions="0", flexible="0+"):
    """A new state of a segment that is known already."""

    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: Int32
    event_timestamp_ms: Int64
    custom_metadata: Bytes | None = field(default=None)
    remote_log_segment_state: Int8


class RemotePartitionDeleteMetadataRecord(MetadataRecord, type=2, versions="0", flexible="0+"):
    """How far the deletion of a partition's remote segments has come."""

    topic_id_partition: TopicIdPartitionEntry
    broker_id: Int32
    event_timestamp_ms: Int64
    remote_partition_delete_state: Int8


class RemoteLogSegmentMetadataSnapshotRecord(MetadataRecord, type=3, versions="0", flexible="0+"):
    """A segment as a broker's local snapshot of the remote log knows it."""

    segment_id: Uuid
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: Int32
    custom_metadata: Bytes | None = field(default=None)
    remote_log_segment_state: Int8
    txn_index_empty: Bool = field(tag=0, default=False)
