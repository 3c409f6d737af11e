"""DeleteRecords: raise the log start offset of partitions.

The low watermark in the response is the smallest log start of the live replicas. A request is
answered when it has reached the requested offset everywhere, or with REQUEST_TIMED_OUT: then the
leader has deleted the records, and followers will.

Invariant: the leader's log start is durable before the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from moldau.broker.api.delayed_answer import DelayedAnswer
from moldau.broker.api.internal_topics import is_internal
from moldau.broker.api.node import Node
from moldau.broker.api.refusal import client_error
from moldau.broker.api.request import ApiRequest
from moldau.broker.replication.partition import TO_HIGH_WATERMARK
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition

_NO_OFFSET: Final = -1


class _Moved(NamedTuple):
    """A partition whose log start moved, the requested offset, and its row in the response."""

    partition: Partition
    offset: int
    row: DeleteRecordsPartitionResult


def serve(node: Node, request: ApiRequest) -> None:
    """Move the log starts, and answer when that is durable here and done by the live replicas."""
    message = cast(DeleteRecordsRequest, request.decode())
    moved: list[_Moved] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_delete(node, topic.name, asked, moved) for asked in topic.partitions],
        )
        for topic in message.topics
    ]
    response = DeleteRecordsResponse(topics=topics)
    if not moved:
        request.answer(response)
        return
    end_ms = _now_ms(node) + message.timeout_ms
    deletion = _Deletion(node, request, response, moved)
    node.runtime.spawn(_answer_when_durable(node, deletion, end_ms), name="delete-records")


def _delete(
    node: Node, topic: str, asked: DeleteRecordsPartition, moved: list[_Moved]
) -> DeleteRecordsPartitionResult:
    """Move the log start of one partition and return its row.

    On success, add the partition to `moved`: its new log start must still be made durable.
    """
    index = asked.partition_index
    row = DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=_NO_OFFSET, error_code=ErrorCode.NONE
    )
    try:
        partition = node.replicas.partition(topic, index)
        if is_internal(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the cluster's own", topic=topic)
        row.low_watermark = partition.delete_records(asked.offset)
        offset = row.low_watermark if asked.offset == TO_HIGH_WATERMARK else asked.offset
        moved.append(_Moved(partition, offset, row))
    except KafkaError as error:
        row.error_code = client_error(node, topic, index, error).code
    return row


async def _answer_when_durable(node: Node, deletion: _Deletion, end_ms: int) -> None:
    """Wait for the leader's disk, then for the followers."""
    await node.replicas.log_starts_durable(deletion.partitions)
    if not deletion.is_gone and not deletion.try_complete():
        left_ms = end_ms - _now_ms(node)
        deletion.wait(node.replicas.purgatory, deletion.partitions, left_ms)


class _Deletion(DelayedAnswer):
    """A DeleteRecords request that waits until all live replicas have deleted the records."""

    __slots__ = ("_left", "_node", "_response")

    def __init__(
        self, node: Node, request: ApiRequest, response: DeleteRecordsResponse, moved: list[_Moved]
    ) -> None:
        super().__init__(request)
        self._node = node
        self._response = response
        self._left = moved

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that the request still waits for."""
        return [each.partition for each in self._left]

    def try_complete(self) -> bool:
        self._left = [each for each in self._left if not self._is_settled(each)]
        if self._left:
            return False
        self.answer(self._response)
        return True

    def on_timeout(self) -> None:
        for each in self._left:
            each.row.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.answer(self._response)

    def _is_settled(self, moved: _Moved) -> bool:
        """Whether the row of the partition is final."""
        partition, offset, row = moved
        try:
            row.low_watermark = partition.low_watermark(_live_replicas(self._node, partition))
        except KafkaError as error:
            row.error_code = client_error(self._node, partition.topic, partition.index, error).code
            row.low_watermark = _NO_OFFSET
            return True
        return row.low_watermark >= offset


def _live_replicas(node: Node, partition: Partition) -> list[int]:
    topic = node.image.topics.by_id.get(partition.topic_id)
    known = None if topic is None else topic.partitions.get(partition.index)
    brokers = node.image.brokers.by_id
    return [
        each
        for each in (() if known is None else known.replicas)
        if each in brokers and not brokers[each].is_fenced
    ]


def _now_ms(node: Node) -> int:
    return node.runtime.clock.monotonic_ns() // 1_000_000
