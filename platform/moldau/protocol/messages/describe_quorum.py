"""Tells how far the voters and observers of the Raft quorum have come."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int16, Int32, Int64, String, TopicName, Uint16, Uuid


class DescribeQuorumRequestPartitionData(Struct, schema_name="PartitionData"):
    """One partition."""

    partition_index: Int32


class DescribeQuorumRequestTopicData(Struct, schema_name="TopicData"):
    """One topic and its partitions."""

    topic_name: TopicName
    partitions: list[DescribeQuorumRequestPartitionData]


class DescribeQuorumRequest(
    Request, key=55, versions="0-2", flexible="0+", listeners=("broker", "controller")
):
    """The partitions to describe; in practice the one of `__cluster_metadata`."""

    topics: list[DescribeQuorumRequestTopicData]


class ReplicaState(Struct):
    """The progress of one replica, as the leader sees it."""

    replica_id: BrokerId
    replica_directory_id: Uuid = field(since=2, default=ZERO_UUID)
    log_end_offset: Int64
    # KIP-836
    last_fetch_timestamp: Int64 = field(since=1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field(since=1, default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct, schema_name="PartitionData"):
    """The quorum of one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(since=2, default="", ignorable=True)
    leader_id: BrokerId
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class DescribeQuorumResponseTopicData(Struct, schema_name="TopicData"):
    """One topic of the answer and its partitions."""

    topic_name: TopicName
    partitions: list[DescribeQuorumResponsePartitionData]


class Listener(Struct):
    """An address of a node, by listener."""

    name: String = field(map_key=True)
    host: String
    port: Uint16


class Node(Struct):
    """A node of the quorum and its addresses."""

    node_id: BrokerId = field(map_key=True)
    listeners: list[Listener]


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    """Leader, epoch, high watermark and the progress of every replica."""

    error_code: Int16
    error_message: String | None = field(since=2, default="", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData]
    # KIP-853
    nodes: list[Node] = field(since=2, default_factory=list)
