"""DeleteTopics: by name, or by id (KIP-516).

If a request names a topic twice, or in two ways, it fails for this topic and does not delete it.
"""

from __future__ import annotations

from collections import Counter

from moldau.broker.controller.image import Image
from moldau.broker.controller.outcome import DecisionInputs, Outcome, check_record_count
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.protocol.schemas.metadata_log import RemoveTopicRecord


def delete_topics(
    image: Image, request: DeleteTopicsRequest, inputs: DecisionInputs
) -> Outcome[DeleteTopicsResponse]:
    """Delete the existing topics. The response has an error for each other one."""
    wanted = request.topics or [
        DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names
    ]
    meant = Counter(_meaning(image, each) for each in wanted)
    answered: set[tuple[str | None, Uuid]] = set()
    records: list[MetadataRecord] = []
    results: list[DeletableTopicResult] = []
    for each in wanted:
        key = (each.name, each.topic_id)
        if key in answered:
            continue
        answered.add(key)
        result = _judge(image, each, is_repeated=meant[_meaning(image, each)] > 1)
        if result.error_code == ErrorCode.NONE:
            try:
                inputs.charge(len(image.topics.by_id[result.topic_id].partitions))
            except KafkaError as error:
                results.append(_refuse(each, error.code, error.reason))
                continue
            records.append(RemoveTopicRecord(topic_id=result.topic_id))
        results.append(result)
    check_record_count(records)
    return Outcome(tuple(records), DeleteTopicsResponse(responses=results))


def _meaning(image: Image, wanted: DeleteTopicState) -> tuple[str | None, Uuid]:
    """Return a key that is the same for both ways to name a topic."""
    if wanted.name is not None:
        topic = image.topics.by_name(wanted.name)
    else:
        topic = image.topics.by_id.get(wanted.topic_id)
    return (wanted.name, wanted.topic_id) if topic is None else (topic.name, topic.topic_id)


def _judge(image: Image, wanted: DeleteTopicState, *, is_repeated: bool) -> DeletableTopicResult:
    name, topic_id = wanted.name, wanted.topic_id
    if name is None and topic_id == ZERO_UUID:
        return _refuse(wanted, ErrorCode.INVALID_REQUEST, "neither a name nor an id")
    if name is not None and topic_id != ZERO_UUID:
        return _refuse(wanted, ErrorCode.INVALID_REQUEST, "both a name and an id")
    if is_repeated:
        return _refuse(wanted, ErrorCode.INVALID_REQUEST, "the request names the topic twice")
    if name is None:
        topic = image.topics.by_id.get(topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = image.topics.by_name(name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return _refuse(wanted, missing, missing.message)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)


def _refuse(wanted: DeleteTopicState, code: ErrorCode, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name, topic_id=wanted.topic_id, error_code=code, error_message=message
    )
