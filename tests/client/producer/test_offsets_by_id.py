"""Offsets in a transaction go by the ids of their topics, if these are known (KIP-1319)."""

from __future__ import annotations

from moldau.client import (
    AbortableTransactionError,
    ErrorCode,
    KafkaError,
    OffsetAndMetadata,
    TopicPartition,
)
from moldau.client.producer.transaction_core import TransactionState
from moldau.client.producer.transaction_requests import SentOffsets
from moldau.protocol.messages import txn_offset_commit as committing
from moldau.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from moldau.protocol.messages.end_txn import EndTxnRequest
from tests.client.producer.transaction_desk import GROUP, T0, T1, Desk, kept
from tests.client.producer.transaction_desk import desk as desk

ID = b"0123456789abcdef"


def by_id(*partitions: TopicPartition) -> SentOffsets:
    group = GROUP._replace(topic_ids=dict.fromkeys(partitions, ID))
    return SentOffsets(group, {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(6)})


def test_offsets_go_by_the_ids_of_the_topics_that_they_are_of(desk: Desk) -> None:
    desk.core.on_begin()
    sent = by_id(T0, T1)
    desk.core.on_offsets(sent)
    if desk.version == 1:
        desk.answer(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse(error_code=0))
    ask = desk.asked(committing.TxnOffsetCommitRequest)
    assert ask.version_max == (4 if desk.version == 1 else None)
    (topic,) = ask.request.topics  # type: ignore[attr-defined]
    assert (topic.name, topic.topic_id) == ("t", ID), "an older version has the name"
    assert [each.partition_index for each in topic.partitions] == [0, 1]
    desk.core.on_answer(ask, kept(topic_id=ID), desk.now)
    assert sent.left.keys() == {T1}
    desk.answer(committing.TxnOffsetCommitRequest, kept(partition=1))
    assert not sent.left


def test_offsets_without_an_id_go_by_name_after_the_others() -> None:
    desk = Desk(2)
    desk.core.on_begin()
    sent = by_id(T1)
    desk.core.on_offsets(sent)
    ask = desk.asked(committing.TxnOffsetCommitRequest)
    assert ask.version_max is None
    desk.core.on_answer(ask, kept(partition=1, topic_id=ID), desk.now)
    assert sent.left.keys() == {T0}
    ask = desk.asked(committing.TxnOffsetCommitRequest)
    assert ask.version_max == 5
    desk.core.on_answer(ask, kept(), desk.now)
    assert not sent.left


def test_offsets_of_a_deleted_topic_make_the_transaction_abortable() -> None:
    desk = Desk(2)
    desk.core.on_begin()
    sent = by_id(T0, T1)
    desk.core.on_offsets(sent)
    unknown = kept(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=ID)
    later = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    desk.answer(committing.TxnOffsetCommitRequest, *[unknown, later] * 4)
    assert desk.state() is TransactionState.IN_TRANSACTION, "a coordinator may lag behind"
    desk.answer(committing.TxnOffsetCommitRequest, unknown)
    assert desk.state() is TransactionState.ABORTABLE
    error = desk.core.failure()
    assert isinstance(error, AbortableTransactionError)
    assert error.may_pass
    assert (error.code, error.context["topic"]) == (ErrorCode.UNKNOWN_TOPIC_ID, "t")
    desk.end(commits=False)
    desk.answer(EndTxnRequest, desk.ended())
    assert desk.state() is TransactionState.READY
