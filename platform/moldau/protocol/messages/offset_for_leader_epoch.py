"""Finds where an epoch ended, so that a log can be cut where it left the leader's (KIP-101)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int16, Int32, Int64, TopicName


class OffsetForLeaderPartition(Struct):
    """One partition and the epoch to look up."""

    partition: Int32
    current_leader_epoch: Int32 = field(default=-1, ignorable=True)
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    """One topic and its partitions."""

    topic: TopicName = field(map_key=True)
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(
    Request, key=23, versions="2-4", flexible="4+", listeners=("broker",)
):
    """A follower or consumer names the last epoch it has seen."""

    # -2 is a debugging consumer, -1 a consumer
    replica_id: BrokerId = field(since=3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    """The epoch that was found and where it ends; -1 both where there is none."""

    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = field(default=-1, ignorable=True)
    end_offset: Int64 = field(default=-1)


class OffsetForLeaderTopicResult(Struct):
    """One topic of the answer and its partitions."""

    topic: TopicName = field(map_key=True)
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", flexible="4+"):
    """The last offset of that epoch, or of the largest one below it."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
