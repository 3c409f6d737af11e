"""The states of a producer's transactions, without a cluster: what is asked after which answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from moldau.client import (
    AbortableTransactionError,
    ErrorCode,
    FatalTransactionError,
    GroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    RetriableTransactionError,
    TopicPartition,
    TransactionError,
)
from moldau.client.producer.transaction import (
    TRANSITIONS,
    TransactionRequest,
    TransactionState,
    TransactionStates,
)
from moldau.protocol.messages import add_partitions_to_txn as adding
from moldau.protocol.messages import txn_offset_commit as committing
from moldau.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.runtime.backoff import Backoff

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = GroupMetadata("g", 3, "m", None)
LOST = KafkaError(ErrorCode.NETWORK_EXCEPTION)


def identified(producer_id: int, epoch: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=epoch)


class Desk:
    """A producer's states, and a coordinator that answers as the test says."""

    def __init__(self, version: int) -> None:
        self.states = TransactionStates("id", 60_000, Backoff(100, 1000), Random(1))
        self.version = version
        self.now = 0.0
        self.states.initialize()
        self.states.on_versions(speaks_v2=version > 1)
        self.answer(InitProducerIdRequest, identified(7, 0))
        assert self.states.state is TransactionState.READY

    def asked(self, kind: type[Any]) -> TransactionRequest:
        """The request that is sent now, or as soon as it may be; it is of this kind."""
        ready = self.states.ready(self.now)
        if ready.wake is not None:
            self.now = ready.wake
            ready = self.states.ready(self.now)
        assert ready.ask is not None
        assert isinstance(ready.ask.request, kind)
        return ready.ask

    def answer(self, kind: type[Any], *answers: Any) -> Any:
        """Each answer to a request of this kind, which is repeated; return the last request."""
        for each in answers:
            ask = self.asked(kind)
            self.states.on_answer(ask, each, self.now)
        return ask.request

    def is_silent(self) -> bool:
        ready = self.states.ready(self.now)
        return ready.ask is None and ready.wake is None

    def begin(self, *partitions: TopicPartition) -> None:
        """Begin a transaction that has these partitions."""
        self.states.begin()
        sent = [self.states.may_send_to(where) for where in partitions]
        assert all(sent) == (self.version > 1)
        if self.version == 1:
            self.answer(adding.AddPartitionsToTxnRequest, self.added(*partitions))
        assert all(map(self.states.may_send_to, partitions))

    @staticmethod
    def added(*partitions: TopicPartition, code: int = 0) -> adding.AddPartitionsToTxnResponse:
        return adding.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                adding.AddPartitionsToTxnTopicResult(
                    name="t",
                    results_by_partition=[
                        adding.AddPartitionsToTxnPartitionResult(
                            partition_index=each.partition, partition_error_code=code
                        )
                        for each in partitions
                    ],
                )
            ]
        )

    def ended(self, code: int = 0) -> EndTxnResponse:
        if self.version == 1:
            return EndTxnResponse(error_code=code)
        return EndTxnResponse(
            error_code=code, producer_id=7, producer_epoch=self.states.identity.epoch + 1
        )


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def desk(request: pytest.FixtureRequest) -> Desk:
    return Desk(request.param)


def test_the_table_has_every_state_and_only_errors_end_it() -> None:
    assert set(TRANSITIONS) == set(TransactionState)
    assert [each for each, after in TRANSITIONS.items() if not after] == [TransactionState.FATAL]


def test_nothing_is_sent_between_the_end_and_its_answer(desk: Desk) -> None:
    desk.begin(T0)
    desk.states.commit()
    assert desk.is_silent()  # records may still be on their way
    desk.states.on_settled()
    ask = desk.asked(EndTxnRequest)
    with pytest.raises(TransactionError):
        desk.states.begin()
    with pytest.raises(TransactionError):
        desk.states.check_open()
    desk.states.on_answer(ask, desk.ended(), desk.now)
    epoch = desk.states.identity.epoch
    assert epoch == desk.version - 1  # version 2 raises it
    desk.states.begin()
    assert desk.is_silent()


def test_partitions_are_added_together_before_the_first_send() -> None:
    desk = Desk(1)
    desk.states.begin()
    assert not desk.states.may_send_to(T0)
    assert not desk.states.may_send_to(T1)
    request = desk.answer(
        adding.AddPartitionsToTxnRequest,
        KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        Desk.added(T0, T1, code=ErrorCode.CONCURRENT_TRANSACTIONS),
        Desk.added(T0, T1),
    )
    assert request.v3_and_below_topics[0].partitions == [0, 1]
    assert desk.states.may_send_to(T0)
    assert desk.is_silent()


def test_an_end_without_an_answer_is_followed_by_a_new_epoch() -> None:
    desk = Desk(1)
    desk.begin(T0)
    desk.states.commit()
    desk.states.on_settled()
    desk.answer(EndTxnRequest, LOST, desk.ended())
    assert desk.states.has_ended
    with pytest.raises(TransactionError):
        desk.states.begin()
    request = desk.answer(InitProducerIdRequest, identified(7, 1))
    assert (request.producer_id, request.producer_epoch) == (7, 0)
    desk.begin(T0)
    assert desk.states.identity.epoch == 1


def test_an_abort_with_records_that_may_arrive_takes_a_new_epoch(desk: Desk) -> None:
    desk.begin(T0)
    desk.states.on_failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    with pytest.raises(AbortableTransactionError):
        desk.states.commit()
    desk.states.abort()
    assert desk.is_silent()
    desk.states.on_settled(is_unsure=True)
    if desk.version == 1:
        desk.answer(InitProducerIdRequest, identified(7, 1))
    else:
        desk.answer(EndTxnRequest, desk.ended())
    assert desk.states.state is TransactionState.READY
    assert desk.states.identity.epoch == 1


@pytest.mark.parametrize("commits", [True, False])
def test_an_empty_transaction_asks_nothing(desk: Desk, commits: bool) -> None:
    desk.states.begin()
    desk.states.commit() if commits else desk.states.abort()
    desk.states.on_settled()
    assert desk.is_silent()
    assert desk.states.state is TransactionState.READY


def test_offsets_go_to_the_group_with_its_member(desk: Desk) -> None:
    desk.states.begin()
    sent = desk.states.add_offsets({T0: OffsetAndMetadata(5)}, GROUP)
    desk.states.commit()
    desk.states.on_settled()
    if desk.version == 1:
        desk.answer(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse(error_code=0))
    busy, done = (
        committing.TxnOffsetCommitResponse(
            topics=[
                committing.TxnOffsetCommitResponseTopic(
                    name="t",
                    partitions=[
                        committing.TxnOffsetCommitResponsePartition(
                            partition_index=0, error_code=code
                        )
                    ],
                )
            ]
        )
        for code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)
    )
    assert desk.asked(committing.TxnOffsetCommitRequest).group_id == "g"
    desk.states.on_answer(desk.states._asked, busy, desk.now)  # type: ignore[arg-type]
    request = desk.answer(committing.TxnOffsetCommitRequest, done)
    assert (request.generation_id, request.member_id) == (3, "m")
    assert not sent.left
    desk.answer(EndTxnRequest, desk.ended())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.PRODUCER_FENCED, FatalTransactionError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, FatalTransactionError),
        (ErrorCode.INVALID_TXN_STATE, FatalTransactionError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FatalTransactionError),
        (ErrorCode.TRANSACTION_ABORTABLE, AbortableTransactionError),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, AbortableTransactionError),
    ],
)
def test_what_a_refused_commit_means(
    desk: Desk, code: ErrorCode, kind: type[TransactionError]
) -> None:
    desk.begin(T0)
    desk.states.commit()
    desk.states.on_settled()
    desk.answer(EndTxnRequest, desk.ended(code))
    assert isinstance(desk.states.failure(), kind)


def test_an_id_that_is_forgotten_is_replaced_by_an_abort(desk: Desk) -> None:
    desk.begin(T0)
    desk.states.abort()
    desk.states.on_settled()
    desk.answer(EndTxnRequest, desk.ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    request = desk.answer(InitProducerIdRequest, identified(9, 0))
    assert request.producer_id == -1
    assert desk.states.identity.id == 9
    assert desk.states.state is TransactionState.READY


def test_an_id_that_is_forgotten_between_transactions_is_replaced() -> None:
    """The coordinator knows nothing of a transaction if it has refused its partitions, but the next
    one would be refused in the same way for ever."""
    desk = Desk(1)
    desk.states.begin()
    assert not desk.states.may_send_to(T0)
    refused = Desk.added(T0, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    desk.answer(adding.AddPartitionsToTxnRequest, refused)
    assert isinstance(desk.states.failure(), AbortableTransactionError)
    desk.states.abort()
    desk.states.on_settled()
    request = desk.answer(InitProducerIdRequest, identified(9, 0))
    assert request.producer_id == -1
    assert desk.states.state is TransactionState.READY
    desk.begin(T0)
    assert desk.states.identity.id == 9


def test_a_commit_that_was_sent_cannot_be_aborted(desk: Desk) -> None:
    desk.begin(T0)
    desk.states.commit()
    desk.states.on_settled()
    desk.answer(EndTxnRequest, LOST)
    with pytest.raises(RetriableTransactionError, match="commit_transaction again"):
        desk.states.abort()
    desk.states.commit()
    assert desk.asked(EndTxnRequest).request.committed  # type: ignore[attr-defined]


@pytest.mark.parametrize("commits", [True, False])
def test_an_end_that_is_asked_for_again_may_be_done_since(desk: Desk, commits: bool) -> None:
    """Its first call has given up waiting, as `max.block.ms` says, and says to make it again."""
    end, other = desk.states.commit, desk.states.abort
    if not commits:
        end, other = other, end
    desk.begin(T0)
    end()
    desk.states.on_settled()
    desk.answer(EndTxnRequest, desk.ended())
    with pytest.raises(TransactionError, match="no open transaction"):
        other()
    end()
    assert desk.states.state is TransactionState.READY
    desk.states.untold = None
    with pytest.raises(TransactionError, match="no open transaction"):
        end()


def test_a_commit_that_waits_for_records_can_be_aborted(desk: Desk) -> None:
    desk.begin(T0)
    desk.states.commit()
    desk.states.abort()
    desk.states.on_settled()
    assert not desk.answer(EndTxnRequest, desk.ended()).committed


def test_an_abort_while_partitions_are_being_added_waits_for_that_answer() -> None:
    desk = Desk(1)
    desk.states.begin()
    desk.states.may_send_to(T0)
    ask = desk.asked(adding.AddPartitionsToTxnRequest)
    desk.states.abort()
    desk.states.on_settled()
    assert desk.is_silent()
    desk.states.on_answer(ask, LOST, desk.now)  # it may have been added
    desk.answer(InitProducerIdRequest, identified(7, 1))
    assert desk.states.state is TransactionState.READY
