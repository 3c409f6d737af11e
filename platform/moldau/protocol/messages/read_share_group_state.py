"""Loads the stored state of share partitions (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, Int64, String, Uuid


class PartitionData(Struct):
    """One partition and the epoch of its leader."""

    partition: Int32
    leader_epoch: Int32


class ReadStateData(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionData]


class ReadShareGroupStateRequest(
    Request, key=84, versions="0", flexible="0+", listeners=("broker",)
):
    """A new leader of the partitions names itself by its epoch and reads."""

    group_id: String
    topics: list[ReadStateData]


class StateBatch(Struct):
    """A run of offsets in one state, delivered equally often."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16
    # Ours: the wall clock time before which the records are not handed out.
    not_before_ms: Int64 = field(tag=10000, default=-1)


class PartitionResult(Struct):
    """The state of one partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    state_epoch: Int32
    start_offset: Int64
    state_batches: list[StateBatch]


class ReadStateResult(Struct):
    """One topic of the answer and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    """The state: where the open window starts and how each record in it stands."""

    results: list[ReadStateResult]
