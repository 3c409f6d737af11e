"""Stores changes to the state of share partitions (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, Int64, String, Uuid


class StateBatch(Struct):
    """A run of offsets in one state, delivered equally often."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16
    # Ours: the wall clock time before which the records are not handed out.
    not_before_ms: Int64 = field(tag=10000, default=-1)


class PartitionData(Struct):
    """The changes to one partition."""

    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    # KIP-1226: for the lag of a share group; -1 where not known
    delivery_complete_count: Int32 = field(since=1, default=-1, ignorable=True)
    state_batches: list[StateBatch]


class WriteStateData(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionData]


class WriteShareGroupStateRequest(
    Request, key=85, versions="0-1", flexible="0+", listeners=("broker",)
):
    """The changes, fenced by state epoch and leader epoch."""

    group_id: String
    topics: list[WriteStateData]


class PartitionResult(Struct):
    """The outcome for one partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = field(default=None)


class WriteStateResult(Struct):
    """One topic of the answer and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    """An error code for each partition."""

    results: list[WriteStateResult]
