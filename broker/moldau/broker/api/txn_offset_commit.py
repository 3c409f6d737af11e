"""TxnOffsetCommit: offsets that become visible when the transaction commits.

The partition of the group's offsets must be in the transaction. A client of transaction version 2
leaves that to the broker; an older client has sent AddOffsetsToTxn, which is verified. As in
Produce, a confirmation counts only while the partition has seen nothing of the producer since the
question: a marker may have ended the transaction since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.gate import allowed, is_allowed
from moldau.broker.api.joining import ask_coordinator, verifies
from moldau.broker.api.offset_commit import merged
from moldau.broker.api.produce_transaction import is_open
from moldau.broker.coordinator.group.transactional_commits import (
    commit_in_transaction,
    refused_in_transaction,
)
from moldau.broker.coordinator.transaction.membership import JoiningPartitions
from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.records import Producer as BatchProducer

if TYPE_CHECKING:
    from moldau.broker.api.joining import Codes
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.protocol.declare import Response

_BUMPS_SINCE: Final = 5
"""The version with which clients of transaction version 2 begin."""
_ABORTABLE_SINCE: Final = 4
_IDS_SINCE: Final = 6
_FIRST_SEQUENCE: Final = 0  # as Kafka's coordinators write; nothing reads it


def serve(node: Node, request: ApiRequest) -> None:
    """Write the offsets into the group's log, as a part of the transaction."""
    message = cast(TxnOffsetCommitRequest, request.decode())
    version = request.arrival.version
    error = _refused(node, request, message)
    if error is not None:
        request.answer(refused_in_transaction(message, error))
        return
    unknown = _take_unknown(node, request, message)

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = refused_in_transaction(message, response)
        assert isinstance(response, TxnOffsetCommitResponse)
        response.topics = merged(unknown, response.topics)
        request.answer(response)

    if not message.topics:
        answer(TxnOffsetCommitResponse(topics=[]))
        return
    index = node.groups.partition_of(message.group_id)
    if index is None:
        answer(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    producer = Producer(message.producer_id, message.producer_epoch)

    def commit() -> None:
        node.groups.submit(
            message.group_id,
            lambda groups, now_ms: commit_in_transaction(groups, message, version, answer, now_ms),
            answer,
            "TxnOffsetCommit",
            BatchProducer(producer.id, producer.epoch, _FIRST_SEQUENCE, is_transactional=True),
        )

    place = TopicPartition(node.groups.kind.topic, index)
    client_version = 2 if version >= _BUMPS_SINCE else 0
    if _is_joined(node, place, producer) or not verifies(node, client_version):
        commit()
        return

    seen = _entry(node, place, producer)

    def on_codes(codes: Codes) -> None:
        code = ErrorCode(codes.get(place, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if code is ErrorCode.NONE:
            if _is_joined(node, place, producer) or _entry(node, place, producer) is seen:
                commit()
            else:
                answer(KafkaError(_again(version)))
        else:
            answer(KafkaError(_code_for(code, version)))

    joining = JoiningPartitions(
        message.transactional_id, producer, frozenset((place,)), client_version
    )
    ask_coordinator(node, joining, on_codes, verify_only=version < _BUMPS_SINCE)


def _is_joined(node: Node, place: TopicPartition, producer: Producer) -> bool:
    try:
        return is_open(node.replicas.partition(*place), producer)
    except KafkaError:
        return False  # the coordinator's shard refuses it


def _entry(node: Node, place: TopicPartition, producer: Producer) -> object:
    """Return what the partition knows of the producer. Each change makes another object."""
    try:
        return node.replicas.partition(*place).producers.get(producer.id)
    except KafkaError:
        return None


def _again(version: int) -> ErrorCode:
    """Return the code after which the client sends the request again."""
    if version >= _BUMPS_SINCE:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _code_for(code: ErrorCode, version: int) -> ErrorCode:
    """Return the code for the client, of a coordinator's refusal."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # of the transaction, not of the group
    return code


def _refused(node: Node, request: ApiRequest, message: TxnOffsetCommitRequest) -> KafkaError | None:
    if not is_allowed(node, request, AclResource.TRANSACTIONAL_ID, message.transactional_id):
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        return KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not message.group_id:
        return KafkaError(ErrorCode.INVALID_GROUP_ID)
    return None


def _take_unknown(
    node: Node, request: ApiRequest, message: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Remove the partitions that cannot be committed from the message, and return their errors. The
    topics that are left get both their name and their id."""
    has_ids = request.arrival.version >= _IDS_SINCE
    topics = node.image.topics
    found = [
        topics.by_id.get(each.topic_id) if has_ids else topics.by_name(each.name)
        for each in message.topics
    ]
    for topic, known in zip(message.topics, found, strict=True):
        if known is not None:
            topic.name, topic.topic_id = known.name, known.topic_id
    names = [each.name for each in message.topics if each.name]
    readable = allowed(node, request, AclResource.TOPIC, names)
    unknown: list[TxnOffsetCommitResponseTopic] = []
    for topic, known in zip(message.topics, found, strict=True):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        there = () if known is None else known.partitions
        if has_ids and known is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif topic.name not in readable:
            code, there = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ()
        rows = [
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
            if each.partition_index not in there
        ]
        topic.partitions = [each for each in topic.partitions if each.partition_index in there]
        if rows:
            unknown.append(
                TxnOffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=rows
                )
            )
    message.topics = [each for each in message.topics if each.partitions]
    return unknown
