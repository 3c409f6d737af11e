"""Acquires records for a member of a share group, and acknowledges earlier ones (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import (
    Bool,
    BrokerId,
    GroupId,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
)


class AcknowledgementBatch(Struct):
    """A run of offsets and what became of each (one type for all, or one apiece)."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]
    # Ours: how long a release keeps its records back; -1 leaves it to the group.
    delay_ms: Int64 = field(tag=10000, default=-1)
    # Ours: why records are rejected.
    reason: String | None = field(tag=10001, default=None)


class FetchPartition(Struct):
    """One partition to read."""

    partition_index: Int32 = field(map_key=True)
    # version 0, seen in early access only, had a byte limit before this
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid = field(map_key=True)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    """Partitions to drop from the share session."""

    topic_id: Uuid
    partitions: list[Int32]


class ShareFetchRequest(Request, key=78, versions="1-2", flexible="0+", listeners=("broker",)):
    """What to read in this share session, and what became of records read before."""

    group_id: GroupId | None = field(default=None)
    member_id: String | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=2**31 - 1)
    max_records: Int32
    batch_size: Int32
    # KIP-1206: 0 by batch, 1 by strict record limit
    share_acquire_mode: Int8 = field(since=2, default=0, ignorable=True)
    # KIP-1222: the acknowledgements may extend the lock
    is_renew_ack: Bool = field(since=2, default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    """The partition's leader now, for a reader that asked another broker."""

    leader_id: Int32
    leader_epoch: Int32


class AcquiredRecords(Struct):
    """A run of offsets that are the member's, and how often they were delivered."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class PartitionData(Struct):
    """The records of one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = field(default=None)
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    """One topic of the answer and its partitions."""

    topic_id: Uuid = field(map_key=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    """The address of a broker that `current_leader` names."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Int32
    rack: String | None = field(default=None)


class ShareFetchResponse(Response, key=78, versions="1-2", flexible="0+"):
    """Records, and which of them the member has acquired for how long."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
