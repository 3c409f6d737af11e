"""Adds partitions to topics; the count can only grow."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, BrokerId, Int16, Int32, String, TopicName


class CreatePartitionsAssignment(Struct):
    """Which brokers hold one of the new partitions."""

    broker_ids: list[BrokerId]


class CreatePartitionsTopic(Struct):
    """One topic and its new total of partitions."""

    name: TopicName = field(map_key=True)
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


class CreatePartitionsRequest(
    Request, key=37, versions="0-3", flexible="2+", listeners=("broker", "controller")
):
    """The new totals, with replicas placed by hand if wanted."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    """The outcome for one topic."""

    name: TopicName
    error_code: Int16
    error_message: String | None = field(default=None)


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    """The outcome for each topic."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[CreatePartitionsTopicResult]
