"""Reports of this node's replicas and their log directories to the controller (KIP-858).

Invariants: the last report of a replica names the directory where it is. One request is in flight
at a time. A replica is reported until the controller has accepted it, or does not know it any more.
A report that a crash loses is made again when the replica is opened.

No request waits for a report. A node serves replicas from where they are, whatever the metadata
say. The controller needs to know which replicas are lost when a directory fails.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.directories import is_reserved
from moldau.broker.decision.context import of_node
from moldau.broker.log.names import TopicPartition
from moldau.broker.settings.tiered import remote_log_storage_system_enable
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import format_uuid
from moldau.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.broker.api.node import Node
    from moldau.broker.replication.partition import Partition
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.protocol.declare import Response

Name = tuple["Uuid", int]

VERSION: Final = AssignReplicasToDirsRequest.spec.versions.last
REPLICAS_MAX: Final = 2250
"""The limit for one request, as in Kafka."""
PAUSE_SECONDS: Final = 0.5
_NAMED_MAX: Final = 5
_FINAL: Final = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
)


class Placement:
    """The directory reports of this broker, from start to exit."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._untold: dict[Name, Uuid] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_live = False

    def note(self, partition: Partition, directory_id: Uuid) -> None:
        """Report that the replica is in this directory, which is not in the metadata."""
        self._untold[partition.topic_id, partition.index] = directory_id
        self._begin()

    def live(self) -> None:
        """Start to send reports: the broker is registered, and has its replicas."""
        self._is_live = True
        self._begin()
        warn_of_unserved(self._node)

    async def aclose(self) -> None:
        """Stop: send no more reports."""
        self._is_live = False
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _begin(self) -> None:
        if self._is_live and self._untold and (self._task is None or self._task.done()):
            self._task = self._node.runtime.spawn(self._report(), name="broker-placement")

    async def _report(self) -> None:
        while self._untold:
            told = dict(list(self._untold.items())[:REPLICAS_MAX])
            if not await self._report_some(told):
                await asyncio.sleep(PAUSE_SECONDS)

    async def _report_some(self, told: Mapping[Name, Uuid]) -> bool:
        """Send one request. Return whether all of its reports are settled."""
        answered: asyncio.Future[Response | KafkaError] = asyncio.Future()

        def on_answer(answer: Response | KafkaError) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._node.controller.submit(
            self._request(told), of_node(self._node.node_id, VERSION), on_answer
        )
        answer = await answered
        if isinstance(answer, KafkaError):
            return False
        assert isinstance(answer, AssignReplicasToDirsResponse)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            self._untold.clear()  # the cluster's metadata have no directories
            return True
        done = [
            (topic.topic_id, each.partition_index)
            for directory in answer.directories
            for topic in directory.topics
            for each in topic.partitions
            if each.error_code in _FINAL
        ]
        for name in done:
            if self._untold.get(name) == told.get(name):
                self._untold.pop(name, None)
        return len(done) == len(told)

    def _request(self, told: Mapping[Name, Uuid]) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, index), directory_id in told.items():
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._node.node_id,
            broker_epoch=self._node.broker_epoch,
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequestPartitionData(partition_index=index)
                                for index in indexes
                            ],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in directories.items()
            ],
        )


def warn_of_unserved(node: Node) -> None:
    """Warn about replicas with older records in remote storage, at a node without it. Nothing
    of them is lost: the logs begin where they did, and keep what they have."""
    if node.settings[remote_log_storage_system_enable]:
        return
    tiered = [each for each in node.replicas.hosted.values() if each.log_config.is_tiered]
    if tiered:
        node.log.warn(
            "remote storage is off at this broker, and topics with remote.storage.enable=true have "
            "partitions here: what they have in remote storage is not read, and what they have on "
            "this disk stays, whatever retention says; set "
            f"{remote_log_storage_system_enable.name}=true, or delete these topics",
            partitions=len(tiered),
            first=",".join(f"{each.topic}-{each.index}" for each in tiered[:_NAMED_MAX]),
        )


def warn_of_missing(node: Node, log: Logger) -> None:
    """Warn about replicas of this node in directories that it does not have. They have no leader
    here. The operator may have removed a directory from the settings, or lost a disk, and should
    know at once."""
    directories = node.directories
    known = {each.directory_id for each in directories.directories}
    missing: dict[Uuid, list[TopicPartition]] = {}
    for topic, index, partition in node.image.topics.all_partitions():
        place = TopicPartition(topic.name, index)
        directory_id = partition.directory_of(node.node_id)
        if is_reserved(directory_id) or directory_id in known or directories.directory_of(place):
            continue
        missing.setdefault(directory_id, []).append(place)
    for directory_id, places in missing.items():
        log.warn(
            "partitions of this node are in a directory that log.dirs does not name, or whose disk "
            "is not there; they are out of service until it is back",
            directory_id=format_uuid(directory_id),
            partitions=len(places),
            first=",".join(map(str, places[:_NAMED_MAX])),
        )
