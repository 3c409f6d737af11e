"""Downloads a Raft snapshot piece by piece (KIP-630)."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import (
    BrokerId,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    TopicName,
    Uint16,
    Uuid,
)


class SnapshotId(Struct):
    """A snapshot: the offset after its last record and that record's epoch."""

    end_offset: Int64
    epoch: Int32


class FetchSnapshotRequestPartitionSnapshot(Struct, schema_name="PartitionSnapshot"):
    """Where to read on in one partition's snapshot."""

    partition: Int32
    current_leader_epoch: Int32
    snapshot_id: SnapshotId
    position: Int64
    # KIP-853
    replica_directory_id: Uuid = field(since=1, tag=0, default=ZERO_UUID, ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct, schema_name="TopicSnapshot"):
    """One topic and its partitions."""

    name: TopicName
    partitions: list[FetchSnapshotRequestPartitionSnapshot]


class FetchSnapshotRequest(
    Request, key=59, versions="0-1", flexible="0+", listeners=("controller",)
):
    """Which snapshot, and from which byte on."""

    cluster_id: String | None = field(tag=0, default=None)
    replica_id: BrokerId = field(default=-1)
    max_bytes: Int32 = field(default=2**31 - 1)
    topics: list[FetchSnapshotRequestTopicSnapshot]


class LeaderIdAndEpoch(Struct):
    """The leader now, for a node that asked another one."""

    leader_id: BrokerId = field(default=0)
    leader_epoch: Int32 = field(default=0)


class FetchSnapshotResponsePartitionSnapshot(Struct, schema_name="PartitionSnapshot"):
    """A piece of one partition's snapshot."""

    index: Int32
    error_code: Int16
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch = field(tag=0, default_factory=LeaderIdAndEpoch)
    size: Int64
    position: Int64
    unaligned_records: Records


class FetchSnapshotResponseTopicSnapshot(Struct, schema_name="TopicSnapshot"):
    """One topic of the answer and its partitions."""

    name: TopicName
    partitions: list[FetchSnapshotResponsePartitionSnapshot]


class NodeEndpoint(Struct):
    """The address of a leader that the answer names."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Uint16


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    """The bytes at that position, which may start and end inside a batch."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    error_code: Int16
    topics: list[FetchSnapshotResponseTopicSnapshot]
    node_endpoints: list[NodeEndpoint] = field(since=1, tag=0, default_factory=list)
