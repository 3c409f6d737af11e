"""OffsetForLeaderEpoch: the end of an epoch, to find where a log diverges (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import cast

from moldau.broker.api.node import Node
from moldau.broker.api.refusal import client_error
from moldau.broker.api.request import ApiRequest
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def serve(node: Node, request: ApiRequest) -> None:
    """Answer for the partitions that this broker leads: other replicas may still be truncated."""
    message = cast(OffsetForLeaderEpochRequest, request.decode())
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[_end_of(node, topic.topic, asked) for asked in topic.partitions],
        )
        for topic in message.topics
    ]
    request.answer(OffsetForLeaderEpochResponse(topics=topics))


def _end_of(node: Node, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = node.replicas.partition(topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
        epoch, end_offset = partition.epoch_end(asked.leader_epoch)
    except KafkaError as error:
        refusal = client_error(node, topic, asked.partition, without_frames(error))
        return EpochEndOffset(error_code=refusal.code, partition=asked.partition)
    return EpochEndOffset(
        error_code=ErrorCode.NONE,
        partition=asked.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )
