"""Finds an offset by timestamp; negative timestamps name the ends of the log.

-1 latest, -2 earliest, -3 largest timestamp, -4 earliest local, -5 latest tiered, -6 earliest
that still waits for upload.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int8, Int16, Int32, Int64, TopicName


class ListOffsetsPartition(Struct):
    """One partition and the time to look for."""

    partition_index: Int32
    # KIP-320: an epoch the leader does not share fences the request
    current_leader_epoch: Int32 = field(since=4, default=-1, ignorable=True)
    timestamp: Int64


class ListOffsetsTopic(Struct):
    """One topic and its partitions."""

    name: TopicName
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+", listeners=("broker",)):
    """Asks a leader for the first offset at or after a time, a partition at a time."""

    # -1 for clients
    replica_id: BrokerId
    isolation_level: Int8 = field(since=2, default=0)
    topics: list[ListOffsetsTopic]
    # KIP-1075: looking into remote storage may take long
    timeout_ms: Int32 = field(since=10, default=0, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """What was found in one partition."""

    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = field(default=-1)
    offset: Int64 = field(default=-1)
    leader_epoch: Int32 = field(since=4, default=-1)


class ListOffsetsTopicResponse(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    """The offset found and the timestamp of its record; -1 where there is none."""

    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
