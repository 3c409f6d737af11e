"""A new Raft leader tells the voters that it won the election."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int16, Int32, String, TopicName, Uint16, Uuid


class BeginQuorumEpochRequestPartitionData(Struct, schema_name="PartitionData"):
    """The new leader of one partition."""

    partition_index: Int32
    voter_directory_id: Uuid = field(since=1, default=ZERO_UUID, ignorable=True)
    leader_id: BrokerId
    leader_epoch: Int32


class BeginQuorumEpochRequestTopicData(Struct, schema_name="TopicData"):
    """One topic and its partitions."""

    topic_name: TopicName
    partitions: list[BeginQuorumEpochRequestPartitionData]


class LeaderEndpoint(Struct):
    """An address of the leader, by listener."""

    name: String = field(map_key=True)
    host: String
    port: Uint16


class BeginQuorumEpochRequest(
    Request, key=53, versions="0-1", flexible="1+", listeners=("controller",)
):
    """The leader, its epoch and (KIP-853) where it can be reached."""

    cluster_id: String | None = field(default=None)
    voter_id: BrokerId = field(since=1, default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field(since=1, default_factory=list, ignorable=True)


class BeginQuorumEpochResponsePartitionData(Struct, schema_name="PartitionData"):
    """The voter's view of one partition."""

    partition_index: Int32
    error_code: Int16
    leader_id: BrokerId
    leader_epoch: Int32


class BeginQuorumEpochResponseTopicData(Struct, schema_name="TopicData"):
    """One topic of the answer and its partitions."""

    topic_name: TopicName
    partitions: list[BeginQuorumEpochResponsePartitionData]


class NodeEndpoint(Struct):
    """The address of a leader that the answer names."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Uint16


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
    """Whether the voter follows."""

    error_code: Int16
    topics: list[BeginQuorumEpochResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field(since=1, tag=0, default_factory=list)
