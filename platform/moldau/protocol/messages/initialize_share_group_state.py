"""Creates the stored state of share partitions (KIP-932).

Group coordinators talk to share coordinators with it.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, Int64, String, Uuid


class PartitionData(Struct):
    """Where one partition starts."""

    partition: Int32
    state_epoch: Int32
    start_offset: Int64


class InitializeStateData(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionData]


class InitializeShareGroupStateRequest(
    Request, key=83, versions="0", flexible="0+", listeners=("broker",)
):
    """The partitions, their state epoch and where reading starts."""

    group_id: String
    topics: list[InitializeStateData]


class PartitionResult(Struct):
    """The outcome for one partition."""

    partition: Int32
    error_code: Int16
    error_message: String | None = field(default=None)


class InitializeStateResult(Struct):
    """One topic of the answer and its partitions."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    """An error code for each partition."""

    results: list[InitializeStateResult]
