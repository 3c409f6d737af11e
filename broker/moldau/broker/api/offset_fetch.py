"""OffsetFetch: committed offsets of one group (versions 1 to 7) or of several.

Internally all versions have the form of version 8, with topics by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from moldau.broker.api.together import PartialAnswers
from moldau.broker.coordinator.group.fetches import fetch_offsets, fetch_refusal, none_at
from moldau.broker.coordinator.outcome import answered
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.outcome import Outcome, Ticket

_GROUPS_SINCE: Final = 8
_ERROR_CODE_SINCE: Final = 2
_IDS_SINCE: Final = 10

Put: TypeAlias = "Callable[[OffsetFetchResponseGroup], None]"


def serve(node: Node, request: ApiRequest) -> None:
    """Answer with committed offsets. Each group is read in its shard."""
    message = cast(OffsetFetchRequest, request.decode())
    version = request.arrival.version
    if version < _GROUPS_SINCE:
        _serve_one(node, request, message)
        return

    def finish(found: Sequence[OffsetFetchResponseGroup]) -> None:
        request.answer(OffsetFetchResponse(groups=list(found)))

    together = PartialAnswers[OffsetFetchResponseGroup](len(message.groups), finish)
    for number, group in enumerate(message.groups):

        def put(found: OffsetFetchResponseGroup, number: int = number) -> None:
            together.put(number, found)

        if version >= _IDS_SINCE:
            _fetch_by_id(node, group, put, require_stable=message.require_stable)
        else:
            _fetch(node, group, put, require_stable=message.require_stable)


def _fetch(node: Node, group: OffsetFetchRequestGroup, put: Put, *, require_stable: bool) -> None:
    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            put(fetch_refusal(group, response))
        else:
            (found,) = cast(OffsetFetchResponse, response).groups
            put(found)

    node.groups.submit(
        group.group_id, _reading(group, answer, require_stable), answer, "OffsetFetch"
    )


def _reading(
    group: OffsetFetchRequestGroup, ticket: Ticket, require_stable: bool
) -> Callable[[Groups, int], Outcome]:
    def decide(groups: Groups, now_ms: int) -> Outcome:
        found = fetch_offsets(groups, group, require_stable=require_stable)
        return answered(ticket, OffsetFetchResponse(groups=[found]))

    return decide


def _fetch_by_id(
    node: Node, group: OffsetFetchRequestGroup, put: Put, *, require_stable: bool
) -> None:
    """Read a group with topics by id, in the request and in the response. If all topics are
    requested, one that has no id any more is left out."""
    topics = node.image.topics
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        known: list[OffsetFetchRequestTopics] = []
        for asked in group.topics:
            topic = topics.by_id.get(asked.topic_id)
            if topic is None:
                unknown.append(_unknown(asked))
            else:
                asked.name = topic.name
                known.append(asked)
        group.topics = known

    def put_ids(found: OffsetFetchResponseGroup) -> None:
        if not found.error_code:
            named = []
            for each in found.topics:
                topic = topics.by_name(each.name)
                if topic is not None:
                    each.topic_id = topic.topic_id
                    named.append(each)
            found.topics = [*named, *unknown]
        put(found)

    _fetch(node, group, put_ids, require_stable=require_stable)


def _unknown(asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        partitions=[none_at(each, ErrorCode.UNKNOWN_TOPIC_ID) for each in asked.partition_indexes],
    )


def _serve_one(node: Node, request: ApiRequest, message: OffsetFetchRequest) -> None:
    """Answer a request before version 8, which names one group."""
    version = request.arrival.version
    asked = None
    if message.topics is not None:
        asked = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in message.topics
        ]
    group = OffsetFetchRequestGroup(group_id=message.group_id, topics=asked)

    def put(found: OffsetFetchResponseGroup) -> None:
        if found.error_code:
            request.answer(_refusal(message, found.error_code, version))
        else:
            request.answer(OffsetFetchResponse(topics=[_flat(each) for each in found.topics]))

    _fetch(node, group, put, require_stable=message.require_stable)


def _flat(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
            for each in topic.partitions
        ],
    )


def _refusal(message: OffsetFetchRequest, code: int, version: int) -> OffsetFetchResponse:
    """Return the response with an error. Version 1 can report it only at the partitions."""
    if version >= _ERROR_CODE_SINCE:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            _flat(
                OffsetFetchResponseTopics(
                    name=topic.name,
                    partitions=[none_at(each, ErrorCode(code)) for each in topic.partition_indexes],
                )
            )
            for topic in message.topics or ()
        ]
    )
