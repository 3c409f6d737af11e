"""Moves replicas of a broker between its log directories."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, String, TopicName


class AlterReplicaLogDirTopic(Struct):
    """One topic and the partitions to move."""

    name: TopicName = field(map_key=True)
    partitions: list[Int32]


class AlterReplicaLogDir(Struct):
    """A target directory, and what moves there."""

    path: String = field(map_key=True)
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(
    Request, key=34, versions="1-2", flexible="2+", listeners=("broker",)
):
    """Each directory and the partitions that shall live in it."""

    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


class AlterReplicaLogDirTopicResult(Struct):
    """One topic of the answer and its partitions."""

    topic_name: TopicName
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Response, key=34, versions="1-2", flexible="2+"):
    """An error code for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AlterReplicaLogDirTopicResult]
