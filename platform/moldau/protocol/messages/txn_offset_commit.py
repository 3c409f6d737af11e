"""Commits a group's offsets as a part of a transaction; they count once it commits."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import (
    GroupId,
    Int16,
    Int32,
    Int64,
    ProducerId,
    String,
    TopicName,
    TransactionalId,
    Uuid,
)


class TxnOffsetCommitRequestPartition(Struct):
    """The offset to resume from in one partition."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=2, default=-1, ignorable=True)
    committed_metadata: String | None


class TxnOffsetCommitRequestTopic(Struct):
    """One topic and its partitions."""

    # KIP-1319: from version 6 on the topic goes by its id
    name: TopicName = field(until=5, default="", ignorable=True)
    topic_id: Uuid = field(since=6, default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Request, key=28, versions="0-6", flexible="3+", listeners=("broker",)):
    """The offsets, the group, and the transaction that they belong to."""

    transactional_id: TransactionalId
    group_id: GroupId
    producer_id: ProducerId
    producer_epoch: Int16
    # KIP-447: fences zombies by the group's generation
    generation_id_or_member_epoch: Int32 = field(since=3, default=-1)
    member_id: String = field(since=3, default="")
    group_instance_id: String | None = field(since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


class TxnOffsetCommitResponseTopic(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName = field(until=5, default="", ignorable=True)
    topic_id: Uuid = field(since=6, default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Response, key=28, versions="0-6", flexible="3+"):
    """An error code for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[TxnOffsetCommitResponseTopic]
