"""DeleteRecords: raise the log start offset of partitions.

The low watermark in the response is the leader's log start offset. With several replicas Kafka's
low watermark is the smallest of theirs, and its request waits for the other replicas. This module
does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.internal_topics import is_internal
from moldau.broker.api.node import Node
from moldau.broker.api.refusal import told
from moldau.broker.api.request import ApiRequest
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


def serve(node: Node, request: ApiRequest) -> None:
    """Move the log starts. They are durable when the request is answered."""
    message = cast(DeleteRecordsRequest, request.decode())
    moved: list[Partition] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_delete(node, topic.name, asked, moved) for asked in topic.partitions],
        )
        for topic in message.topics
    ]
    response = DeleteRecordsResponse(throttle_time_ms=0, topics=topics)
    if moved:
        answering = _answer_when_durable(node, request, response, moved)
        node.runtime.spawn(answering, name="delete-records")
    else:
        request.answer(response)


async def _answer_when_durable(
    node: Node, request: ApiRequest, response: DeleteRecordsResponse, moved: list[Partition]
) -> None:
    await node.replicas.log_starts_durable(moved)
    failed = {(each.topic, each.index) for each in moved if each.log.failure is not None}
    for topic in response.topics:
        for row in topic.partitions:
            if not row.error_code and (topic.name, row.partition_index) in failed:
                row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                row.low_watermark = _NO_OFFSET
    if not request.is_gone:
        request.answer(response)


def _delete(
    node: Node, topic: str, asked: DeleteRecordsPartition, moved: list[Partition]
) -> DeleteRecordsPartitionResult:
    """Move the log start of one partition.
    Adds it to `moved`: its new start must be made durable."""
    index = asked.partition_index
    low_watermark = _NO_OFFSET
    code = ErrorCode.NONE
    try:
        partition = node.replicas.partition(topic, index)
        if is_internal(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the cluster's own", topic=topic)
        low_watermark = partition.delete_records(asked.offset)
        moved.append(partition)
    except KafkaError as error:
        code = told(node, topic, index, error).code
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_watermark, error_code=code
    )
