"""DescribeProducers: the producer state of partitions, to find hanging transactions (KIP-664)."""

from __future__ import annotations

from typing import Final, cast

from moldau.broker.api.gate import allowed
from moldau.broker.api.node import Node
from moldau.broker.api.refusal import client_error, message_of
from moldau.broker.api.request import ApiRequest
from moldau.broker.controller.topic_names import check_topic_name
from moldau.broker.log.producer_state import ProducerStateEntry
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_NO_OFFSET: Final = -1


def serve(node: Node, request: ApiRequest) -> None:
    """Answer for the partitions that this broker leads or follows: an operator compares them."""
    message = cast(DescribeProducersRequest, request.decode())
    names = allowed(node, request, AclResource.TOPIC, [each.name for each in message.topics])
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[
                _describe(node, topic.name, index)
                if topic.name in names
                else _refused(index, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                for index in topic.partition_indexes
            ],
        )
        for topic in message.topics
    ]
    request.answer(DescribeProducersResponse(topics=topics))


def _describe(node: Node, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        partition = node.replicas.readable(topic, index)
    except KafkaError as error:
        return _refused(index, client_error(node, topic, index, error))
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=[_state(entry) for entry in partition.producers.values()],
    )


def _refused(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=error.code,
        error_message=message_of(error),
        active_producers=[],
    )


def _state(entry: ProducerStateEntry) -> ProducerState:
    first = entry.transaction_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=_NO_OFFSET if first is None else first,
    )
