"""A broker tells the controller in which directories its replicas lie (KIP-858)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int16, Int32, Int64, Uuid


class AssignReplicasToDirsRequestPartitionData(Struct, schema_name="PartitionData"):
    """One partition."""

    partition_index: Int32


class AssignReplicasToDirsRequestTopicData(Struct, schema_name="TopicData"):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[AssignReplicasToDirsRequestPartitionData]


class AssignReplicasToDirsRequestDirectoryData(Struct, schema_name="DirectoryData"):
    """One directory and the replicas in it."""

    id: Uuid
    topics: list[AssignReplicasToDirsRequestTopicData]


class AssignReplicasToDirsRequest(
    Request, key=73, versions="0", flexible="0+", listeners=("controller",)
):
    """The directories, each with the replicas in it."""

    broker_id: BrokerId
    broker_epoch: Int64 = field(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData]


class AssignReplicasToDirsResponsePartitionData(Struct, schema_name="PartitionData"):
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


class AssignReplicasToDirsResponseTopicData(Struct, schema_name="TopicData"):
    """One topic of the answer and its partitions."""

    topic_id: Uuid
    partitions: list[AssignReplicasToDirsResponsePartitionData]


class AssignReplicasToDirsResponseDirectoryData(Struct, schema_name="DirectoryData"):
    """One directory of the answer and its replicas."""

    id: Uuid
    topics: list[AssignReplicasToDirsResponseTopicData]


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    """An error code for each replica."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    directories: list[AssignReplicasToDirsResponseDirectoryData]
