"""Makes partitions elect a leader now: the preferred one, or any replica at all."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, String, TopicName


class TopicPartitions(Struct):
    """One topic and its partitions."""

    topic: TopicName = field(map_key=True)
    partitions: list[Int32]


class ElectLeadersRequest(
    Request, key=43, versions="0-2", flexible="2+", listeners=("broker", "controller")
):
    """Which partitions (null means all) and which kind of election."""

    # KIP-460: 0 preferred, 1 unclean
    election_type: Int8 = field(since=1, default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = field(default=60000)


class PartitionResult(Struct):
    """The outcome for one partition."""

    partition_id: Int32
    error_code: Int16
    error_message: String | None


class ReplicaElectionResult(Struct):
    """One topic of the answer and its partitions."""

    topic: TopicName
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    """An error code for each partition that was looked at."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(since=1, default=0)
    replica_election_results: list[ReplicaElectionResult]
