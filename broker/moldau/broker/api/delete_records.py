"""Lets logs begin later.

With one replica a log's start is the low watermark at once; that of more is the smallest of theirs,
and a request then waits for the others (the cluster's part).
"""

from __future__ import annotations

from typing import Final, cast

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

_NO_OFFSET: Final = -1


def serve(node: Node, request: ApiRequest) -> None:
    """Durable when it is answered."""
    message = cast(DeleteRecordsRequest, request.decode())
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_delete(node, topic.name, asked) for asked in topic.partitions],
        )
        for topic in message.topics
    ]
    request.answer(DeleteRecordsResponse(throttle_time_ms=0, topics=topics))


def _delete(node: Node, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    index = asked.partition_index
    low_watermark = _NO_OFFSET
    code = ErrorCode.NONE
    try:
        partition = node.replicas.partition(topic, index)
        if is_internal(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the cluster's own", topic=topic)
        low_watermark = partition.delete_records(asked.offset)
    except KafkaError as error:
        code = told(node, topic, index, error).code
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_watermark, error_code=code
    )
