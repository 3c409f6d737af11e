"""Deletes the stored state of share partitions (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, String, Uuid


class PartitionData(Struct):
    """One partition."""

    partition: Int32


class DeleteStateData(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionData]


class DeleteShareGroupStateRequest(
    Request, key=86, versions="0", flexible="0+", listeners=("broker",)
):
    """The partitions whose state can go."""

    group_id: String
    topics: list[DeleteStateData]


class PartitionResult(Struct):
    """The outcome for one partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = field(default=None)


class DeleteStateResult(Struct):
    """One topic of the answer and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    """An error code for each partition."""

    results: list[DeleteStateResult]
