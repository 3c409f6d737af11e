"""A Raft leader steps down in good order and names the preferred successors."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int16, Int32, String, TopicName, Uint16, Uuid


class ReplicaInfo(Struct):
    """A voter that could take over."""

    candidate_id: BrokerId
    candidate_directory_id: Uuid


class EndQuorumEpochRequestPartitionData(Struct, schema_name="PartitionData"):
    """The leader that steps down in one partition."""

    partition_index: Int32
    leader_id: BrokerId
    leader_epoch: Int32
    preferred_successors: list[Int32] = field(until=0, default_factory=list, ignorable=True)
    # KIP-853: successors by node and directory
    preferred_candidates: list[ReplicaInfo] = field(since=1, default_factory=list, ignorable=True)


class EndQuorumEpochRequestTopicData(Struct, schema_name="TopicData"):
    """One topic and its partitions."""

    topic_name: TopicName
    partitions: list[EndQuorumEpochRequestPartitionData]


class LeaderEndpoint(Struct):
    """An address of the leader, by listener."""

    name: String = field(map_key=True)
    host: String
    port: Uint16


class EndQuorumEpochRequest(
    Request, key=54, versions="0-1", flexible="1+", listeners=("controller",)
):
    """The leader, its epoch and its preferred successors, best first."""

    cluster_id: String | None = field(default=None)
    topics: list[EndQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field(since=1, default_factory=list, ignorable=True)


class EndQuorumEpochResponsePartitionData(Struct, schema_name="PartitionData"):
    """The voter's view of one partition."""

    partition_index: Int32
    error_code: Int16
    leader_id: BrokerId
    leader_epoch: Int32


class EndQuorumEpochResponseTopicData(Struct, schema_name="TopicData"):
    """One topic of the answer and its partitions."""

    topic_name: TopicName
    partitions: list[EndQuorumEpochResponsePartitionData]


class NodeEndpoint(Struct):
    """The address of a leader that the answer names."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Uint16


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    """Whether the voter took notice."""

    error_code: Int16
    topics: list[EndQuorumEpochResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field(since=1, tag=0, default_factory=list)
