"""Lists the moves of partitions that are under way (KIP-455)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int16, Int32, String, TopicName


class ListPartitionReassignmentsTopics(Struct):
    """One topic and its partitions."""

    name: TopicName
    partition_indexes: list[Int32]


class ListPartitionReassignmentsRequest(
    Request, key=46, versions="0", flexible="0+", listeners=("broker", "controller")
):
    """The partitions to look at; null means all."""

    timeout_ms: Int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None)


class OngoingPartitionReassignment(Struct):
    """One move: all replicas, those to add and those to remove."""

    partition_index: Int32
    replicas: list[BrokerId]
    adding_replicas: list[BrokerId]
    removing_replicas: list[BrokerId]


class OngoingTopicReassignment(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    """The moves."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    topics: list[OngoingTopicReassignment]
