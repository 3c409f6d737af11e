"""Says what became of acquired records, without reading more (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, BrokerId, GroupId, Int8, Int16, Int32, Int64, String, Uuid


class AcknowledgementBatch(Struct):
    """A run of offsets and what became of each (one type for all, or one apiece)."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]
    # Ours: how long a release keeps its records back; -1 leaves it to the group.
    delay_ms: Int64 = field(tag=10000, default=-1)
    # Ours: why records are rejected.
    reason: String | None = field(tag=10001, default=None)


class AcknowledgePartition(Struct):
    """One partition and its acknowledgements."""

    partition_index: Int32 = field(map_key=True)
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid = field(map_key=True)
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(
    Request, key=79, versions="1-2", flexible="0+", listeners=("broker",)
):
    """Accept, release, reject or renew, by runs of offsets."""

    group_id: GroupId | None = field(default=None)
    member_id: String | None
    share_session_epoch: Int32
    # KIP-1222: the acknowledgements may extend the lock
    is_renew_ack: Bool = field(since=2, default=False)
    topics: list[AcknowledgeTopic]


class LeaderIdAndEpoch(Struct):
    """The partition's leader now, for a member that asked another broker."""

    leader_id: Int32
    leader_epoch: Int32


class PartitionData(Struct):
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    """One topic of the answer and its partitions."""

    topic_id: Uuid = field(map_key=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    """The address of a broker that `current_leader` names."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Int32
    rack: String | None = field(default=None)


class ShareAcknowledgeResponse(Response, key=79, versions="1-2", flexible="0+"):
    """An error code for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32 = field(since=2, default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
