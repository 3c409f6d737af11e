"""ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455).

The image says it: a partition is on its way as long as it has replicas to add or to remove.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.controller.image import Image
    from moldau.broker.controller.topics import Topic


def serve(node: Node, request: ApiRequest) -> None:
    """Answers from the image, at once."""
    request.answer(answer(node.image, cast(ListPartitionReassignmentsRequest, request.decode())))


def answer(
    image: Image, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The moves that are going on; what does not move, or does not exist, is left out."""
    topics = []
    for topic, numbers in _wanted(image, request):
        moving = list(_moving(topic, numbers))
        if moving:
            topics.append(OngoingTopicReassignment(name=topic.name, partitions=moving))
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, topics=topics
    )


def _wanted(
    image: Image, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[Topic, Iterable[int]]]:
    if request.topics is None:
        for topic in image.topics.by_id.values():
            yield topic, topic.partitions
        return
    for each in request.topics:
        named = image.topics.by_name(each.name)
        if named is not None:
            yield named, each.partition_indexes


def _moving(topic: Topic, numbers: Iterable[int]) -> Iterator[OngoingPartitionReassignment]:
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is not None and (partition.adding_replicas or partition.removing_replicas):
            yield OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
