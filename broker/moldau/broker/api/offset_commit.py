"""OffsetCommit and OffsetDelete: reject unknown partitions, and pass the rest to the group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeVar, cast

from moldau.broker.coordinator.group.commits import commit, commit_refusal, delete_offsets
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitResponseTopic

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

_IDS_SINCE: Final = 10
T = TypeVar("T", OffsetCommitResponseTopic, TxnOffsetCommitResponseTopic)


def serve(node: Node, request: ApiRequest) -> None:
    """Commit offsets. Commits of one turn of the event loop share a write."""
    message = cast(OffsetCommitRequest, request.decode())
    version = request.arrival.version
    unknown, known = _sorted(node, message, version)
    message.topics = known

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = commit_refusal(message, response)
        assert isinstance(response, OffsetCommitResponse)
        if unknown:
            response.topics = merged(unknown, response.topics)
        request.answer(response)

    if not known:
        request.answer(OffsetCommitResponse(topics=unknown))
        return
    node.groups.gather(
        message.group_id,
        lambda groups, now_ms: commit(groups, message, version, answer, now_ms),
        answer,
        "OffsetCommit",
    )


def _sorted(
    node: Node, message: OffsetCommitRequest, version: int
) -> tuple[list[OffsetCommitResponseTopic], list[OffsetCommitRequestTopic]]:
    """Split the request into rejections of missing topics and partitions, and the existing ones,
    which get both their name and their id."""
    topics = node.image.topics
    unknown: list[OffsetCommitResponseTopic] = []
    known: list[OffsetCommitRequestTopic] = []
    for asked in message.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= _IDS_SINCE:
            topic = topics.by_id.get(asked.topic_id)
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                asked.name = topic.name
        else:
            topic = topics.by_name(asked.name)
            if topic is not None:
                asked.topic_id = topic.topic_id  # stored with the offset in all versions
        there = () if topic is None else topic.partitions
        missing = [each for each in asked.partitions if each.partition_index not in there]
        if missing:
            unknown.append(_refused(asked, missing, code))
            asked.partitions = [each for each in asked.partitions if each.partition_index in there]
        if asked.partitions:
            known.append(asked)
    return unknown, known


def _refused(
    asked: OffsetCommitRequestTopic,
    missing: Iterable[OffsetCommitRequestPartition],
    code: ErrorCode,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in missing
        ],
    )


def merged(unknown: list[T], found: list[T]) -> list[T]:
    """Merge the responses. Rejections come first, as in Kafka, and each topic appears once."""
    by_name = {(each.name, each.topic_id): each for each in unknown}
    for each in found:
        known = by_name.get((each.name, each.topic_id))
        if known is None:
            unknown.append(each)
        else:
            known.partitions.extend(each.partitions)
    return unknown


def serve_delete(node: Node, request: ApiRequest) -> None:
    """Handle an OffsetDelete request."""
    message = cast(OffsetDeleteRequest, request.decode())
    unknown, message.topics = _sorted_deletes(node, message)

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = OffsetDeleteResponse(error_code=response.code, topics=[])
        assert isinstance(response, OffsetDeleteResponse)
        if not response.error_code:
            response.topics = _merged_deletes(unknown, response.topics)
        request.answer(response)

    if not message.group_id:
        answer(KafkaError(ErrorCode.INVALID_GROUP_ID))
    else:
        node.groups.submit(
            message.group_id,
            lambda groups, now_ms: delete_offsets(groups, message, answer),
            answer,
            "OffsetDelete",
        )


def _sorted_deletes(
    node: Node, message: OffsetDeleteRequest
) -> tuple[list[OffsetDeleteResponseTopic], list[OffsetDeleteRequestTopic]]:
    unknown: list[OffsetDeleteResponseTopic] = []
    known: list[OffsetDeleteRequestTopic] = []
    for asked in message.topics:
        topic = node.image.topics.by_name(asked.name)
        there = () if topic is None else topic.partitions
        missing = [each for each in asked.partitions if each.partition_index not in there]
        asked.partitions = [each for each in asked.partitions if each.partition_index in there]
        if missing:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            unknown.append(
                OffsetDeleteResponseTopic(
                    name=asked.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in missing
                    ],
                )
            )
        if asked.partitions:
            known.append(asked)
    return unknown, known


def _merged_deletes(
    unknown: list[OffsetDeleteResponseTopic], found: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    by_name = {each.name: each for each in unknown}
    merged = list(unknown)
    for each in found:
        known = by_name.get(each.name)
        if known is None:
            merged.append(each)
        else:
            known.partitions.extend(each.partitions)
    return merged
