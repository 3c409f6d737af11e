"""CopySegments: tiered partitions go on in a new segment, and what is before it is copied at once.

The answer names the offset up to which each will be copied, and does not wait. A transaction that
is open holds its records back, as it always does. Nothing is undone if the leader changes: the next
one copies the segments that it has, with the topic's own lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.refusal import client_error, message_of
from moldau.broker.settings import topic as rows
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.copy_segments import (
    CopySegmentsPartitionResult,
    CopySegmentsRequest,
    CopySegmentsResponse,
    CopySegmentsTopicResult,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

_NO_OFFSET: Final = -1


def serve(node: Node, request: ApiRequest) -> None:
    """Begin the copies, and answer."""
    message = cast(CopySegmentsRequest, request.decode())
    topics = [
        CopySegmentsTopicResult(
            name=topic.name,
            partitions=[_copy(node, topic.name, each.partition_index) for each in topic.partitions],
        )
        for topic in message.topics
    ]
    request.answer(CopySegmentsResponse(topics=topics))


def _copy(node: Node, topic: str, index: int) -> CopySegmentsPartitionResult:
    row = CopySegmentsPartitionResult(
        partition_index=index, end_offset=_NO_OFFSET, error_code=ErrorCode.NONE
    )
    try:
        partition = node.replicas.partition(topic, index)
        _check_copied(node, topic)
        if node.copy_segments is None or not node.copy_segments(partition):
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE,
                "the broker does not know yet what is remote; ask again",
                topic=topic,
                partition=index,
            )
        row.end_offset = partition.log_end_offset
    except KafkaError as error:
        row.error_code, row.error_message = _shown(client_error(node, topic, index, error))
    return row


def _shown(error: KafkaError) -> tuple[ErrorCode, str]:
    return error.code, message_of(error)


def _check_copied(node: Node, topic: str) -> None:
    settings = node.topic_settings(topic)
    if not settings[rows.remote_storage_enable]:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"the topic has no {rows.remote_storage_enable.name}=true, so nothing is copied",
            topic=topic,
        )
    if settings[rows.remote_log_copy_disable] or "compact" in settings[rows.cleanup_policy]:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"the topic's segments are not copied: see {rows.remote_log_copy_disable.name} and "
            f"{rows.cleanup_policy.name}",
            topic=topic,
        )
