"""Guards of requests about records: Produce, DeleteRecords, OffsetForLeaderEpoch, InitProducerId.

Fetch has none here: its session names the partitions, so each read is checked (`fetch_rights`).
Rights on transactions are taken from the batches and not from the fields of the request
(CVE-2018-17196).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.rights.guard import Guarded, changed
from moldau.broker.decision.authorizer import Right
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from moldau.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.records import HEADER_BYTES
from moldau.records.header import MAGIC, MAGIC_AT, TRANSACTIONAL

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client

_TOPIC: Final = AclResource.TOPIC
_WRITE: Final = Right(_TOPIC, AclOperation.WRITE)
_FAILED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_IDS_SINCE: Final = 13
_ATTRIBUTES_AT: Final = 22


def guard_produce(
    client: Client, message: ProduceRequest, version: int
) -> Guarded | ProduceResponse | None:
    """WRITE on each topic, and on the transactional id where a batch is transactional."""
    transactional_id = message.transactional_id
    if transactional_id is not None and _is_transactional(message):
        writes = AclOperation.WRITE
        if not client.may(AclResource.TRANSACTIONAL_ID, writes, transactional_id):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            rows = [_refused(topic, code) for topic in message.topic_data]
            return _unless_silent(message, ProduceResponse(responses=rows))
    names = [
        topic.name if version < _IDS_SINCE else client.name_of(topic.topic_id)
        for topic in message.topic_data
    ]
    if None not in names and client.has(_WRITE, cast("list[str]", names)):
        return None
    allowed = client.allowed(_TOPIC, AclOperation.WRITE, (each for each in names if each))
    known = list(zip(names, message.topic_data, strict=True))
    refused = [_refused(topic, _FAILED) for name, topic in known if name and name not in allowed]
    if not refused:
        return None
    left = [topic for name, topic in known if not name or name in allowed]

    def finish(response: ProduceResponse) -> None:
        response.responses = [*refused, *response.responses]

    return Guarded(changed(message, topic_data=left), finish, closes_silent=True)


def _unless_silent(message: ProduceRequest, response: ProduceResponse) -> Guarded | ProduceResponse:
    """Return the response. Without acknowledgements there is none: a message without records is
    left, and the refusal closes the connection."""
    if message.acks:
        return response
    return Guarded(changed(message, topic_data=[]), lambda _: None, closes_silent=True)


def _refused(topic: TopicProduceData, code: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=each.index, error_code=code, base_offset=-1)
            for each in topic.partition_data
        ],
    )


def _is_transactional(message: ProduceRequest) -> bool:
    return any(
        records is not None
        and len(records) >= HEADER_BYTES
        and records[MAGIC_AT] == MAGIC
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL
        for topic in message.topic_data
        for records in (each.records for each in topic.partition_data)
    )


def guard_delete_records(
    client: Client, message: DeleteRecordsRequest, version: int
) -> Guarded | None:
    """DELETE on each topic."""
    allowed = client.allowed(_TOPIC, AclOperation.DELETE, (each.name for each in message.topics))
    refused = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(
                    partition_index=each.partition_index, low_watermark=-1, error_code=_FAILED
                )
                for each in topic.partitions
            ],
        )
        for topic in message.topics
        if topic.name not in allowed
    ]
    if not refused:
        return None

    def finish(response: DeleteRecordsResponse) -> None:
        response.topics = [*refused, *response.topics]

    left = [each for each in message.topics if each.name in allowed]
    return Guarded(changed(message, topics=left), finish)


def guard_epochs(
    client: Client, message: OffsetForLeaderEpochRequest, version: int
) -> Guarded | None:
    """DESCRIBE on each topic, or CLUSTER_ACTION, which followers have."""
    if client.may_on_cluster(AclOperation.CLUSTER_ACTION):
        return None
    allowed = client.allowed(_TOPIC, AclOperation.DESCRIBE, (each.topic for each in message.topics))
    refused = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                EpochEndOffset(error_code=_FAILED, partition=each.partition)
                for each in topic.partitions
            ],
        )
        for topic in message.topics
        if topic.topic not in allowed
    ]
    if not refused:
        return None

    def finish(response: OffsetForLeaderEpochResponse) -> None:
        response.topics = [*response.topics, *refused]

    left = [each for each in message.topics if each.topic in allowed]
    return Guarded(changed(message, topics=left), finish)


def guard_producer_id(
    client: Client, message: InitProducerIdRequest, version: int
) -> InitProducerIdResponse | None:
    """An idempotent producer needs IDEMPOTENT_WRITE, or WRITE on some topic (KIP-679). The right on
    a transactional id is checked by the handler."""
    if message.transactional_id is not None:
        return None
    if client.may_on_cluster(AclOperation.IDEMPOTENT_WRITE):
        return None
    if client.may_on_some(_TOPIC, AclOperation.WRITE):
        return None
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
