"""AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858).

Invariants: a report counts only if the broker is registered with the epoch of the request. A
replica in a directory that is not among the broker's leaves the ISR, as when the directory fails.

Without these reports the controller could not tell which replicas are gone when a broker with
several disks loses one of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from moldau.broker.controller.elections import circumstances_of
from moldau.broker.controller.leadership import change_of
from moldau.broker.controller.levels import supports_directories
from moldau.broker.controller.outcome import Outcome
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord

if TYPE_CHECKING:
    from moldau.broker.controller.brokers import Broker
    from moldau.broker.controller.image import Image
    from moldau.broker.controller.rules import Rules
    from moldau.ids import Uuid


def assign_replicas_to_dirs(
    image: Image, rules: Rules, request: AssignReplicasToDirsRequest
) -> Outcome[AssignReplicasToDirsResponse]:
    """Handle each replica separately. An assignment that is in the metadata needs no record."""
    broker = image.brokers.by_id.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return _refusal(ErrorCode.STALE_BROKER_EPOCH)
    if not supports_directories(image.features.metadata_version):
        return _refusal(ErrorCode.UNSUPPORTED_VERSION)
    records: dict[tuple[Uuid, int], PartitionChangeRecord] = {}
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            partitions = []
            for each in topic.partitions:
                name = topic.topic_id, each.partition_index
                code = _check(image, broker, name)
                if not code:
                    _assign(image, rules, broker, (name, directory.id), records)
                partitions.append(
                    AssignReplicasToDirsResponsePartitionData(
                        partition_index=each.partition_index, error_code=code
                    )
                )
            topics.append(
                AssignReplicasToDirsResponseTopicData(
                    topic_id=topic.topic_id, partitions=partitions
                )
            )
        directories.append(
            AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics)
        )
    response = AssignReplicasToDirsResponse(error_code=ErrorCode.NONE, directories=directories)
    return Outcome(tuple(records.values()), response)


def _check(image: Image, broker: Broker, name: tuple[Uuid, int]) -> ErrorCode:
    topic = image.topics.by_id.get(name[0])
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(name[1])
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _assign(
    image: Image,
    rules: Rules,
    broker: Broker,
    placed: tuple[tuple[Uuid, int], Uuid],
    records: dict[tuple[Uuid, int], PartitionChangeRecord],
) -> None:
    """Put the one record of a replica into `records`. A later assignment replaces it."""
    name, directory_id = placed
    records.pop(name, None)
    topic = image.topics.by_id[name[0]]
    partition = topic.partitions[name[1]]
    if partition.directory_of(broker.broker_id) == directory_id:
        return
    directories = [partition.directory_of(each) for each in partition.replicas]
    directories[partition.replicas.index(broker.broker_id)] = directory_id
    record = None
    moved = replace(partition, directories=tuple(directories))
    if broker.broker_id in partition.isr and not broker.has_online(directory_id):
        others = image.brokers.active_ids() - {broker.broker_id}
        circumstances = circumstances_of(image, rules, topic.name, moved, others)
        record = change_of(name, moved, circumstances, leaving=broker.broker_id)
    if record is None:
        record = PartitionChangeRecord(partition_id=name[1], topic_id=name[0])
    record.directories = directories
    records[name] = record


def _refusal(code: ErrorCode) -> Outcome[AssignReplicasToDirsResponse]:
    response = AssignReplicasToDirsResponse(error_code=code, directories=[])
    return Outcome((), response)
