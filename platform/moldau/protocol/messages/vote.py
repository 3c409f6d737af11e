"""Asks a voter of the Raft quorum for its vote.

`pre_vote` (KIP-996) only asks whether the voter would grant it, and changes no epoch.
"""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import (
    Bool,
    BrokerId,
    Int16,
    Int32,
    Int64,
    String,
    TopicName,
    Uint16,
    Uuid,
)


class VoteRequestPartitionData(Struct, schema_name="PartitionData"):
    """The candidate's claim for one partition."""

    partition_index: Int32
    replica_epoch: Int32
    replica_id: BrokerId
    # KIP-853: a voter is a node together with its log directory
    replica_directory_id: Uuid = field(since=1, default=ZERO_UUID, ignorable=True)
    voter_directory_id: Uuid = field(since=1, default=ZERO_UUID, ignorable=True)
    last_offset_epoch: Int32
    last_offset: Int64
    pre_vote: Bool = field(since=2, default=False)


class VoteRequestTopicData(Struct, schema_name="TopicData"):
    """One topic and its partitions."""

    topic_name: TopicName
    partitions: list[VoteRequestPartitionData]


class VoteRequest(Request, key=52, versions="0-2", flexible="0+", listeners=("controller",)):
    """A candidate presents its epoch and how far its log reaches."""

    cluster_id: String | None = field(default=None)
    voter_id: BrokerId = field(since=1, default=-1, ignorable=True)
    topics: list[VoteRequestTopicData]


class VoteResponsePartitionData(Struct, schema_name="PartitionData"):
    """The vote for one partition."""

    partition_index: Int32
    error_code: Int16
    leader_id: BrokerId
    leader_epoch: Int32
    vote_granted: Bool


class VoteResponseTopicData(Struct, schema_name="TopicData"):
    """One topic of the answer and its partitions."""

    topic_name: TopicName
    partitions: list[VoteResponsePartitionData]


class NodeEndpoint(Struct):
    """The address of a leader that the answer names."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Uint16


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    """Whether the vote was granted, and the leader as far as the voter knows."""

    error_code: Int16
    topics: list[VoteResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field(since=1, tag=0, default_factory=list)
