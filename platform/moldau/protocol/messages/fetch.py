"""Reads record batches: consumers consume, followers replicate and Raft voters follow with it.

A fetch session (KIP-227) lets both sides send only what changed; the session id and epoch tie the
requests of one session together.
"""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import (
    BrokerId,
    Int8,
    Int16,
    Int32,
    Int64,
    ProducerId,
    Records,
    String,
    TopicName,
    Uuid,
)


class ReplicaState(Struct):
    """The fetching replica's id and broker epoch. Consumers leave both at -1."""

    replica_id: BrokerId = field(default=-1)
    replica_epoch: Int64 = field(default=-1)


class FetchPartition(Struct):
    """One partition to read, from where, and what the reader knows about the log."""

    partition: Int32
    # KIP-320: an epoch the leader does not share fences the request
    current_leader_epoch: Int32 = field(since=9, default=-1, ignorable=True)
    fetch_offset: Int64
    # KIP-595: the leader finds divergence by it, instead of OffsetForLeaderEpoch
    last_fetched_epoch: Int32 = field(since=12, default=-1)
    # KIP-107: followers report their log start so that deletes can complete
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)
    partition_max_bytes: Int32
    # KIP-853: tells replicas of one node apart by their log directory
    replica_directory_id: Uuid = field(since=17, tag=0, default=ZERO_UUID, ignorable=True)
    # KIP-1166: a stale one makes the leader answer at once; the default means "do not"
    high_watermark: Int64 = field(since=18, tag=1, default=2**63 - 1, ignorable=True)


class FetchTopic(Struct):
    """One topic to read from and its partitions."""

    topic: TopicName = field(until=12, default="", ignorable=True)
    # KIP-516: ids replace names
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    """Partitions to drop from the fetch session."""

    topic: TopicName = field(until=12, default="", ignorable=True)
    # KIP-516: ids replace names
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True)
    partitions: list[Int32]


class FetchRequest(
    Request, key=1, versions="4-18", flexible="12+", listeners=("broker", "controller")
):
    """Asks a leader (or a follower near the client) for batches from given offsets on."""

    cluster_id: String | None = field(since=12, tag=0, default=None, ignorable=True)
    # moved into replica_state, together with the replica's epoch (KIP-903)
    replica_id: BrokerId = field(until=14, default=-1)
    replica_state: ReplicaState = field(since=15, tag=1, default_factory=ReplicaState)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=2**31 - 1, ignorable=True)
    isolation_level: Int8 = field(default=0, ignorable=True)
    # KIP-227: 0 and epoch -1 mean a full fetch outside of any session
    session_id: Int32 = field(since=7, default=0, ignorable=True)
    session_epoch: Int32 = field(since=7, default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(since=7, default_factory=list)
    # KIP-392: the leader may point the consumer to a replica in its rack
    rack_id: String = field(since=11, default="", ignorable=True)


class EpochEndOffset(Struct):
    """Where the follower's log leaves the leader's; the follower truncates to it."""

    epoch: Int32 = field(default=-1)
    end_offset: Int64 = field(default=-1)


class LeaderIdAndEpoch(Struct):
    """The partition's leader now, for a reader that asked another broker."""

    leader_id: BrokerId = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


class SnapshotId(Struct):
    """The snapshot to fetch instead, when the log no longer reaches back that far."""

    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


class AbortedTransaction(Struct):
    """A transaction that was aborted: skip its records from `first_offset` on."""

    producer_id: ProducerId
    first_offset: Int64


class PartitionData(Struct):
    """The batches of one partition and the marks of its log."""

    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = field(default=-1, ignorable=True)
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(since=12, tag=0, default_factory=EpochEndOffset)
    # KIP-951: saves the client a Metadata round trip
    current_leader: LeaderIdAndEpoch = field(since=12, tag=1, default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field(since=12, tag=2, default_factory=SnapshotId)
    # null where the reader did not ask for read_committed
    aborted_transactions: list[AbortedTransaction] | None = field(ignorable=True)
    # KIP-392: fetch from this replica next
    preferred_read_replica: BrokerId = field(since=11, default=-1)
    records: Records | None


class FetchableTopicResponse(Struct):
    """One topic of the answer and its partitions."""

    topic: TopicName = field(until=12, default="", ignorable=True)
    # KIP-516: ids replace names
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    """The address of a broker that `current_leader` names."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Int32
    rack: String | None = field(default=None)


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    """Batches as they lie in the log, with the offsets that bound what the reader may believe."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    error_code: Int16 = field(since=7, default=0, ignorable=True)
    session_id: Int32 = field(since=7, default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(since=16, tag=0, default_factory=list)
