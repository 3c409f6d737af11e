"""Reads only where the open windows of share partitions start (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, Int64, String, Uuid


class PartitionData(Struct):
    """One partition and the epoch of its leader."""

    partition: Int32
    leader_epoch: Int32


class ReadStateSummaryData(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionData]


class ReadShareGroupStateSummaryRequest(
    Request, key=87, versions="0-1", flexible="0+", listeners=("broker",)
):
    """The partitions to look at."""

    group_id: String
    topics: list[ReadStateSummaryData]


class PartitionResult(Struct):
    """The summary of one partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    # KIP-1226: for the lag of a share group; -1 where not known
    delivery_complete_count: Int32 = field(since=1, default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    """One topic of the answer and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    """The start offsets, without the states of single records."""

    results: list[ReadStateSummaryResult]
