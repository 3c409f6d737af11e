"""DescribeTopicPartitions: topics page by page, in the order of their names (KIP-966).

A page ends when it has as many partitions as were requested or as the broker allows. Its cursor is
the first partition of the next page. Topics that do not exist count as no partitions. They are
listed only if the request names them; a request for all topics gets the existing ones.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from moldau.broker.api.authorized_operations import ALL_OF_TOPIC
from moldau.broker.api.internal_topics import is_internal
from moldau.broker.api.listener_view import ListenerView
from moldau.broker.api.metadata import missing_code
from moldau.broker.settings import fetch
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.controller.topics import Partition, Topic

_FIRST: Final = 0


class _Start(NamedTuple):
    """The first topic and partition of a page."""

    topic: str = ""
    partition: int = _FIRST


def serve(node: Node, request: ApiRequest) -> None:
    """Answer from the image, at once."""
    message = cast(DescribeTopicPartitionsRequest, request.decode())
    limit = node.settings[fetch.max_request_partition_size_limit]
    request.answer(answer(ListenerView.of(node, request), message, limit))


def answer(
    view: ListenerView, request: DescribeTopicPartitionsRequest, limit: int
) -> DescribeTopicPartitionsResponse:
    """Return one page, with at most `limit` partitions."""
    try:
        start = _start(request)
    except KafkaError as error:
        return refusal(request, error)
    topics = view.image.topics
    named = {each.name for each in request.topics}
    ordered = sorted(named) if named else topics.ordered_names()
    left = max(min(limit, request.response_partition_limit), 1)
    page: list[DescribeTopicPartitionsResponseTopic] = []
    for name in islice(ordered, bisect_left(ordered, start.topic), None):
        if left == 0:
            return _page(page, Cursor(topic_name=name, partition_index=_FIRST))
        topic = topics.by_name(name)
        if topic is None:
            page.append(_topic(name, missing_code(name)))
            continue
        first = start.partition if name == start.topic else _FIRST
        end = min(first + left, len(topic.partitions))
        page.append(_described(view, topic, range(first, end)))
        if end < len(topic.partitions):
            return _page(page, Cursor(topic_name=name, partition_index=end))
        left -= max(end - first, 0)
    return _page(page, None)


def refusal(
    request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse:
    """Return the response for the case that the whole request fails: every topic has the error."""
    return _page([_topic(each.name, error.code, asked=False) for each in request.topics], None)


def _start(request: DescribeTopicPartitionsRequest) -> _Start:
    cursor = request.cursor
    if cursor is None:
        return _Start()
    if cursor.partition_index < _FIRST:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's partition is negative")
    if request.topics and all(each.name != cursor.topic_name for each in request.topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor is at a topic that is not asked")
    return _Start(cursor.topic_name, cursor.partition_index)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _described(
    view: ListenerView, topic: Topic, numbers: range
) -> DescribeTopicPartitionsResponseTopic:
    found = _topic(topic.name, ErrorCode.NONE)
    found.topic_id = topic.topic_id
    found.partitions = [_partition(view, each, topic.partitions[each]) for each in numbers]
    return found


def _topic(
    name: str, code: ErrorCode, *, asked: bool = True
) -> DescribeTopicPartitionsResponseTopic:
    topic = DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=asked and is_internal(name),
        partitions=[],
    )
    if asked:
        topic.topic_authorized_operations = ALL_OF_TOPIC
    return topic


def _partition(
    view: ListenerView, number: int, partition: Partition
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=number,
        leader_id=view.leader(partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=view.offline_replicas(partition),
    )
