"""AlterReplicaLogDirs: move replicas of this node between its log directories (KIP-113).

The request is answered when the copies have begun, so that a restart continues them.
DescribeLogDirs shows their progress. A replica that is already in the requested directory stays
there, and a running move of it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest


class _Answer:
    """The outcomes of one request by partition. It is answered when the last one is known."""

    def __init__(self, request: ApiRequest) -> None:
        self._request = request
        self._codes: dict[tuple[str, int], ErrorCode | None] = {}

    def expect(self, topic: str, index: int) -> Callable[[KafkaError | None], None]:
        """Register this partition as pending. Return the callback that stores its outcome."""
        self._codes[topic, index] = None
        return partial(self._heard, topic, index)

    def _heard(self, topic: str, index: int, error: KafkaError | None) -> None:
        self._codes[topic, index] = ErrorCode.NONE if error is None else error.code
        self.send_when_complete()

    def send_when_complete(self) -> None:
        """Answer the request if every partition has an outcome."""
        codes = {each: code for each, code in self._codes.items() if code is not None}
        if len(codes) == len(self._codes):
            self._request.answer(_response(codes))


def _response(codes: Mapping[tuple[str, int], ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def refusal(
    message: AlterReplicaLogDirsRequest, version: int, error: KafkaError
) -> AlterReplicaLogDirsResponse:
    """Return the response for the case that no replica is moved."""
    return _response(dict.fromkeys(_wanted(message), error.code))


def _wanted(message: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    """Return the directory by partition. If one is named for several, the last one counts."""
    return {
        (topic.name, index): directory.path
        for directory in message.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def serve(node: Node, request: ApiRequest) -> None:
    """Begin the moves."""
    wanted = _wanted(cast(AlterReplicaLogDirsRequest, request.decode()))
    answer = _Answer(request)
    outcomes = {name: answer.expect(*name) for name in wanted}
    if not wanted:
        answer.send_when_complete()
    for (topic, index), path in wanted.items():
        on_begun = outcomes[topic, index]
        try:
            _begin(node, topic, index, path, on_begun)
        except KafkaError as error:
            on_begun(error)


def _begin(
    node: Node, topic: str, index: int, path: str, on_begun: Callable[[KafkaError | None], None]
) -> None:
    moves = node.replicas.moves
    target = moves.target_of(topic, index, path)
    try:
        partition = node.replicas.partition(topic, index)
    except KafkaError as error:
        if error.code not in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ):
            raise
        # Kafka uses this code for a replica on another broker; all versions of its clients know it.
        known = node.image.topics.by_name(topic)
        if known is None or index not in known.partitions:
            raise
        raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, topic=topic, partition=index) from error
    moves.begin(partition, target, on_begun)
