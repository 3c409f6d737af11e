"""The core of a producer's transactions, without a loop: what is asked after which answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from moldau.client import (
    AbortableTransactionError,
    ErrorCode,
    FatalTransactionError,
    KafkaError,
    OffsetAndMetadata,
    RetriableTransactionError,
    TopicPartition,
    TransactionError,
)
from moldau.client.producer.transaction_core import (
    TRANSITIONS,
    TransactionCore,
    TransactionState,
)
from moldau.client.producer.transaction_requests import SentOffsets, TransactionRequest
from moldau.protocol.messages import add_partitions_to_txn as adding
from moldau.protocol.messages import txn_offset_commit as committing
from moldau.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.runtime.backoff import Backoff
from tests.client.producer.transaction_desk import (
    GROUP,
    LOST,
    T0,
    T1,
    Desk,
    added,
    identified,
    kept,
)
from tests.client.producer.transaction_desk import desk as desk


def test_the_table_has_every_state_and_only_errors_end_it() -> None:
    assert set(TRANSITIONS) == set(TransactionState)
    assert [each for each, after in TRANSITIONS.items() if not after] == [TransactionState.FATAL]


def test_nothing_is_sent_between_the_end_and_its_answer(desk: Desk) -> None:
    desk.begin(T0)
    desk.core.on_commit()
    assert desk.is_silent()  # records may still be on their way
    desk.core.on_settled(is_unsure=False)
    ask = desk.asked(EndTxnRequest)
    with pytest.raises(TransactionError):
        desk.core.on_begin()
    with pytest.raises(TransactionError):
        desk.core.check_open()
    desk.core.on_answer(ask, desk.ended(), desk.now)
    epoch = desk.core.identity.epoch
    assert epoch == desk.version - 1  # version 2 raises it
    desk.core.on_begin()
    assert desk.is_silent()


def test_partitions_are_added_together_before_the_first_send() -> None:
    desk = Desk(1)
    desk.core.on_begin()
    assert not desk.takes(T0)
    assert not desk.takes(T1)
    request = desk.answer(
        adding.AddPartitionsToTxnRequest,
        KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        added(T0, T1, code=ErrorCode.CONCURRENT_TRANSACTIONS),
        added(T0, T1),
    )
    assert request.v3_and_below_topics[0].partitions == [0, 1]
    assert desk.takes(T0)
    assert desk.is_silent()


def test_an_end_without_an_answer_is_followed_by_a_new_epoch() -> None:
    desk = Desk(1)
    desk.begin(T0)
    desk.core.on_commit()
    desk.core.on_settled(is_unsure=False)
    desk.answer(EndTxnRequest, LOST, desk.ended())
    assert desk.core.has_ended
    with pytest.raises(TransactionError):
        desk.core.on_begin()
    request = desk.answer(InitProducerIdRequest, identified(7, 1))
    assert (request.producer_id, request.producer_epoch) == (7, 0)
    desk.begin(T0)
    assert desk.core.identity.epoch == 1


def test_an_abort_with_records_that_may_arrive_takes_a_new_epoch(desk: Desk) -> None:
    desk.begin(T0)
    desk.core.on_failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    with pytest.raises(AbortableTransactionError):
        desk.core.on_commit()
    desk.core.on_abort()
    assert desk.is_silent()
    desk.core.on_settled(is_unsure=True)
    if desk.version == 1:
        desk.answer(InitProducerIdRequest, identified(7, 1))
    else:
        desk.answer(EndTxnRequest, desk.ended())
    assert desk.state() is TransactionState.READY
    assert desk.core.identity.epoch == 1


@pytest.mark.parametrize("commits", [True, False])
def test_an_empty_transaction_asks_nothing(desk: Desk, commits: bool) -> None:
    desk.core.on_begin()
    desk.core.on_commit() if commits else desk.core.on_abort()
    desk.core.on_settled(is_unsure=False)
    assert desk.is_silent()
    assert desk.state() is TransactionState.READY


def test_offsets_go_to_the_group_with_its_member(desk: Desk) -> None:
    desk.core.on_begin()
    sent = SentOffsets(GROUP, {T0: OffsetAndMetadata(5)})
    desk.core.on_offsets(sent)
    desk.core.on_commit()
    desk.core.on_settled(is_unsure=False)
    if desk.version == 1:
        desk.answer(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse(error_code=0))
    ask = desk.asked(committing.TxnOffsetCommitRequest)
    assert ask.group_id == "g"
    desk.core.on_answer(ask, kept(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), desk.now)
    request = desk.answer(committing.TxnOffsetCommitRequest, kept())
    assert (request.generation_id_or_member_epoch, request.member_id) == (3, "m")
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
    desk.core.on_commit()
    desk.core.on_settled(is_unsure=False)
    desk.answer(EndTxnRequest, desk.ended(code))
    assert isinstance(desk.core.failure(), kind)


def test_an_id_that_is_forgotten_is_replaced_by_an_abort(desk: Desk) -> None:
    desk.begin(T0)
    desk.core.on_abort()
    desk.core.on_settled(is_unsure=False)
    desk.answer(EndTxnRequest, desk.ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    request = desk.answer(InitProducerIdRequest, identified(9, 0))
    assert request.producer_id == -1
    assert desk.core.identity.id == 9
    assert desk.state() is TransactionState.READY


def test_an_id_that_is_forgotten_between_transactions_is_replaced() -> None:
    """The coordinator knows nothing of a transaction if it has refused its partitions, but the next
    one would be refused in the same way for ever."""
    desk = Desk(1)
    desk.core.on_begin()
    assert not desk.takes(T0)
    refused = added(T0, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    desk.answer(adding.AddPartitionsToTxnRequest, refused)
    assert isinstance(desk.core.failure(), AbortableTransactionError)
    desk.core.on_abort()
    desk.core.on_settled(is_unsure=False)
    request = desk.answer(InitProducerIdRequest, identified(9, 0))
    assert request.producer_id == -1
    assert desk.state() is TransactionState.READY
    desk.begin(T0)
    assert desk.core.identity.id == 9


def test_a_commit_that_was_sent_cannot_be_aborted(desk: Desk) -> None:
    desk.begin(T0)
    desk.core.on_commit()
    desk.core.on_settled(is_unsure=False)
    desk.answer(EndTxnRequest, LOST)
    with pytest.raises(RetriableTransactionError, match="commit_transaction again"):
        desk.core.on_abort()
    desk.core.on_commit()
    assert desk.asked(EndTxnRequest).request.committed  # type: ignore[attr-defined]


@pytest.mark.parametrize("commits", [True, False])
def test_an_end_that_is_asked_for_again_may_be_done_since(desk: Desk, commits: bool) -> None:
    """Its first call has given up waiting, as `max.block.ms` says, and says to make it again."""
    end, other = desk.core.on_commit, desk.core.on_abort
    if not commits:
        end, other = other, end
    desk.begin(T0)
    end()
    desk.core.on_settled(is_unsure=False)
    desk.answer(EndTxnRequest, desk.ended())
    with pytest.raises(TransactionError, match="no open transaction"):
        other()
    end()
    assert desk.state() is TransactionState.READY
    desk.core.on_reported()
    with pytest.raises(TransactionError, match="no open transaction"):
        end()


def test_a_commit_that_waits_for_records_can_be_aborted(desk: Desk) -> None:
    desk.begin(T0)
    desk.core.on_commit()
    desk.core.on_abort()
    desk.core.on_settled(is_unsure=False)
    assert not desk.answer(EndTxnRequest, desk.ended()).committed


def test_an_abort_while_partitions_are_being_added_waits_for_that_answer() -> None:
    desk = Desk(1)
    desk.core.on_begin()
    assert not desk.takes(T0)
    ask = desk.asked(adding.AddPartitionsToTxnRequest)
    desk.core.on_abort()
    desk.core.on_settled(is_unsure=False)
    assert desk.is_silent()
    desk.core.on_answer(ask, LOST, desk.now)  # it may have been added
    desk.answer(InitProducerIdRequest, identified(7, 1))
    assert desk.state() is TransactionState.READY


# Sends, calls and records


def test_an_end_that_was_called_lets_no_send_begin_but_those_before_go_on(desk: Desk) -> None:
    desk.core.on_begin()
    desk.core.on_send()
    desk.core.on_ending()
    assert not desk.core.takes_records
    with pytest.raises(TransactionError, match="is being committed"):
        desk.core.on_send()
    with pytest.raises(TransactionError, match="is being committed"):
        desk.core.on_offsets(SentOffsets(GROUP, {T0: OffsetAndMetadata(5)}))
    desk.core.check_open()
    assert desk.core.sends == 1
    desk.core.on_sent()
    desk.end(commits=True)
    desk.core.on_begin()
    desk.core.on_send()
    assert desk.core.sends == 1


@pytest.mark.parametrize(
    ("call", "state"),
    [
        (call, state)
        for call, possible in {
            "on_begin": {TransactionState.READY},
            "on_commit": {TransactionState.IN_TRANSACTION, TransactionState.COMMITTING},
            "on_abort": {
                TransactionState.IN_TRANSACTION,
                TransactionState.COMMITTING,
                TransactionState.ABORTING,
                TransactionState.ABORTABLE,
            },
            "on_send": {TransactionState.IN_TRANSACTION},
        }.items()
        for state in TransactionState
        if state not in possible
    ],
)
def test_a_call_that_its_state_does_not_allow_changes_nothing(
    call: str, state: TransactionState
) -> None:
    desk = Desk(2)
    desk.core.state = state
    if state in (TransactionState.ABORTABLE, TransactionState.FATAL):
        desk.core.error = FatalTransactionError(ErrorCode.PRODUCER_FENCED)
    with pytest.raises(TransactionError):
        getattr(desk.core, call)()
    assert desk.core.state is state
    assert desk.core.sends == desk.core.number == 0


@pytest.mark.parametrize("commits", [True, False])
def test_what_is_left_fails_when_the_transaction_is_over(desk: Desk, commits: bool) -> None:
    desk.begin(T0)
    if commits:
        desk.core.on_failed(KafkaError(ErrorCode.INVALID_RECORD))
        assert desk.core.refusal().code is ErrorCode.INVALID_RECORD
    else:
        desk.core.on_abort()
        assert desk.core.refusal().code is ErrorCode.TRANSACTION_ABORTABLE
    assert desk.core.is_over
    assert not desk.takes(T0)


def test_records_that_fail_after_the_end_was_sent_change_nothing(desk: Desk) -> None:
    """A copy that was late may be refused then; the records were decided before."""
    desk.begin(T0)
    desk.end(commits=True)
    desk.core.on_failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert desk.state() is TransactionState.COMMITTING
    assert desk.answer(EndTxnRequest, desk.ended()).committed


def test_an_error_is_raised_as_a_copy_each_time(desk: Desk) -> None:
    desk.begin(T0)
    desk.core.on_failed(KafkaError(ErrorCode.CORRUPT_MESSAGE, topic="t"))
    first, second = desk.core.failure(), desk.core.failure()
    assert first is not second
    assert first.context == second.context
    assert first.context["topic"] == "t"


# Errors of coordinators

_PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE,
)
_FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
)
_NEVER = (
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
)


@pytest.mark.parametrize("code", _PASSING)
def test_an_error_that_may_pass_is_tried_again_after_a_wait(desk: Desk, code: ErrorCode) -> None:
    desk.begin(T0)
    desk.end(commits=True)
    ask = desk.asked(EndTxnRequest)
    desk.core.on_answer(ask, KafkaError(code), desk.now)
    assert desk.core.trouble is not None
    assert desk.core.trouble.code is code
    ready = desk.core.ready(desk.now)
    assert ready.ask is None
    assert ready.wake is not None
    is_busy = code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (ready.wake - desk.now == pytest.approx(0.02)) == is_busy
    assert desk.asked(EndTxnRequest) == ask
    assert desk.state() is TransactionState.COMMITTING


def test_waits_grow_with_the_tries_and_a_success_ends_that(desk: Desk) -> None:
    desk.begin(T0)
    desk.end(commits=True)
    waits = []
    for _ in range(4):
        ask = desk.asked(EndTxnRequest)
        desk.core.on_answer(ask, KafkaError(ErrorCode.NOT_COORDINATOR), desk.now)
        wake = desk.core.ready(desk.now).wake
        assert wake is not None
        waits.append(wake - desk.now)
    assert waits == sorted(waits)
    desk.answer(EndTxnRequest, desk.ended())
    assert desk.core.trouble is None
    desk.begin(T0)
    desk.end(commits=False)
    assert desk.core.ready(desk.now).ask is not None, "without a wait"


@pytest.mark.parametrize("code", [*_FENCED, *_NEVER])
@pytest.mark.parametrize("commits", [True, False])
def test_a_fenced_producer_is_of_no_more_use(desk: Desk, code: ErrorCode, commits: bool) -> None:
    desk.begin(T0)
    desk.end(commits=commits)
    desk.answer(EndTxnRequest, desk.ended(code))
    assert desk.state() is TransactionState.FATAL
    for call in (desk.core.on_begin, desk.core.on_commit, desk.core.on_abort, desk.core.on_send):
        with pytest.raises(FatalTransactionError) as caught:
            call()
        assert caught.value.code is code
    assert desk.is_silent()


@pytest.mark.parametrize("code", [*_FENCED, *_NEVER, ErrorCode.INVALID_TRANSACTION_TIMEOUT])
def test_an_id_that_is_not_given_ends_the_producer(code: ErrorCode) -> None:
    desk = Desk(2, is_ready=False)
    refused = InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    desk.answer(InitProducerIdRequest, refused)
    assert desk.state() is TransactionState.FATAL
    assert desk.core.failure().code is code
    assert desk.is_silent()


def test_an_id_is_asked_for_until_a_coordinator_is_there() -> None:
    desk = Desk(2, is_ready=False)
    busy = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    desk.answer(InitProducerIdRequest, busy, LOST, busy, identified(7, 3))
    assert desk.state() is TransactionState.READY
    assert (desk.core.identity.id, desk.core.identity.epoch) == (7, 3)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TransactionState.ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, TransactionState.ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionState.FATAL),
        (ErrorCode.INVALID_TXN_STATE, TransactionState.FATAL),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TransactionState.FATAL),
    ],
)
def test_what_a_refused_partition_means(code: ErrorCode, state: TransactionState) -> None:
    desk = Desk(1)
    desk.core.on_begin()
    assert not desk.takes(T0)
    desk.answer(adding.AddPartitionsToTxnRequest, added(T0, code=code))
    assert desk.core.state is state
    assert desk.is_silent()


def test_the_worst_error_of_several_partitions_counts() -> None:
    desk = Desk(1)
    desk.core.on_begin()
    assert not desk.takes(T0)
    assert not desk.takes(T1)
    answer = added(T0, code=ErrorCode.CONCURRENT_TRANSACTIONS)
    answer.results_by_topic_v3_and_below += added(
        T1, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ).results_by_topic_v3_and_below
    desk.answer(adding.AddPartitionsToTxnRequest, answer)
    assert desk.core.failure().code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert desk.core.failure().context["partition"] == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ],
)
def test_offsets_that_a_group_refuses_make_the_transaction_abortable(
    desk: Desk, code: ErrorCode
) -> None:
    desk.core.on_begin()
    sent = SentOffsets(GROUP, {T0: OffsetAndMetadata(5)})
    desk.core.on_offsets(sent)
    if desk.version == 1:
        desk.answer(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse(error_code=0))
    desk.answer(committing.TxnOffsetCommitRequest, kept(code))
    assert desk.state() is TransactionState.ABORTABLE
    assert sent.left
    assert desk.core.failure().context["group"] == "g"
    desk.end(commits=False)
    desk.answer(EndTxnRequest, desk.ended())
    assert desk.state() is TransactionState.READY


def test_offsets_of_a_missing_topic_are_given_up_when_their_call_is(desk: Desk) -> None:
    desk.core.on_begin()
    desk.core.on_offsets(SentOffsets(GROUP, {T0: OffsetAndMetadata(5)}))
    if desk.version == 1:
        desk.answer(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse(error_code=0))
    missing = kept(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    desk.answer(committing.TxnOffsetCommitRequest, missing, missing)
    assert desk.state() is TransactionState.IN_TRANSACTION
    desk.core.on_waited()
    assert desk.state() is TransactionState.ABORTABLE
    assert desk.is_silent()


def test_a_call_that_waited_for_anything_else_may_be_made_again(desk: Desk) -> None:
    desk.begin(T0)
    desk.end(commits=True)
    desk.answer(EndTxnRequest, KafkaError(ErrorCode.NOT_COORDINATOR))
    desk.core.on_waited()
    assert desk.state() is TransactionState.COMMITTING
    desk.core.on_commit()
    desk.answer(EndTxnRequest, desk.ended())
    assert desk.state() is TransactionState.READY


# Answers that are late or lost


def test_an_abort_soon_after_a_commit_waits_for_nothing_but_the_records(desk: Desk) -> None:
    """1. The commit waits for records. 2. It is given up, and the abort is called. 3. The records
    are decided; the settled commit of before must not count."""
    desk.begin(T0)
    desk.core.on_commit()
    desk.core.on_abort()
    assert desk.is_silent()
    assert desk.core.is_over
    desk.core.on_settled(is_unsure=False)
    assert not desk.answer(EndTxnRequest, desk.ended()).committed
    with pytest.raises(TransactionError, match="no open transaction"):
        desk.core.on_commit()


def test_offsets_that_were_on_their_way_into_an_abort_end_with_it(desk: Desk) -> None:
    desk.core.on_begin()
    desk.core.on_offsets(SentOffsets(GROUP, {T0: OffsetAndMetadata(5)}))
    if desk.version == 1:
        desk.answer(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse(error_code=0))
    ask = desk.asked(committing.TxnOffsetCommitRequest)
    desk.end(commits=False)
    assert desk.is_silent(), "one request at a time"
    desk.core.on_answer(ask, kept(), desk.now)
    assert not desk.answer(EndTxnRequest, desk.ended()).committed
    assert desk.state() is TransactionState.READY


def test_an_answer_that_comes_after_the_records_have_failed_changes_nothing() -> None:
    desk = Desk(1)
    desk.core.on_begin()
    assert not desk.takes(T0)
    ask = desk.asked(adding.AddPartitionsToTxnRequest)
    desk.core.on_failed(KafkaError(ErrorCode.INVALID_RECORD))
    desk.core.on_answer(ask, added(T0), desk.now)
    assert desk.state() is TransactionState.ABORTABLE
    assert desk.core.failure().code is ErrorCode.INVALID_RECORD
    desk.end(commits=False)
    desk.answer(EndTxnRequest, desk.ended())
    assert desk.core.identity.epoch == 0, "each answer came: no copy is on its way"


def test_only_the_request_that_was_asked_for_has_an_answer(desk: Desk) -> None:
    desk.begin(T0)
    desk.end(commits=True)
    ask = desk.asked(EndTxnRequest)
    desk.core.on_answer(ask, desk.ended(), desk.now)
    with pytest.raises(AssertionError):  # the shell has a bug
        desk.core.on_answer(ask, desk.ended(), desk.now)


def test_version_2_raises_the_epoch_with_each_end_also_after_lost_answers() -> None:
    desk = Desk(2)
    for epoch, commits in enumerate((True, False, True)):
        desk.begin(T0)
        desk.end(commits=commits, is_unsure=epoch == 1)
        request = desk.answer(EndTxnRequest, LOST, desk.ended())
        assert (request.producer_epoch, request.committed) == (epoch, commits)
        assert (desk.core.identity.id, desk.core.identity.epoch) == (7, epoch + 1)


def test_version_2_takes_a_new_id_when_the_epochs_are_used_up() -> None:
    desk = Desk(2)
    desk.begin(T0)
    desk.end(commits=True)
    desk.answer(EndTxnRequest, EndTxnResponse(error_code=0, producer_id=8, producer_epoch=0))
    assert (desk.core.identity.id, desk.core.identity.epoch) == (8, 0)


def test_a_cluster_that_learns_version_2_uses_it_from_the_next_transaction_on() -> None:
    desk = Desk(1)
    desk.begin(T0)
    desk.core.on_versions(speaks_v2=True)
    assert not desk.core.is_v2
    desk.end(commits=True)
    assert desk.asked(EndTxnRequest).version_max == 4
    assert desk.core._asked is not None
    desk.core.on_answer(desk.core._asked, desk.ended(), desk.now)
    desk.version = 2
    desk.begin(T0)
    desk.end(commits=True)
    assert desk.asked(EndTxnRequest).version_max is None


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING])
def test_an_epoch_that_is_refused_after_the_commit_is_no_failure_of_that(code: ErrorCode) -> None:
    """It is not asked for again: without its id, that would fence the producer that has it now."""
    desk = Desk(1)
    desk.begin(T0)
    desk.end(commits=True)
    desk.answer(EndTxnRequest, LOST, desk.ended())
    refused = InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    desk.answer(InitProducerIdRequest, refused)
    assert desk.core.has_ended
    assert desk.state() is TransactionState.FATAL
    assert desk.is_silent()
    with pytest.raises(FatalTransactionError):
        desk.core.on_begin()


# Any order of events


class Wanderer:
    """A core under random events, and what may never be."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.core = TransactionCore("id", 60_000, Backoff(100, 1000), Random(seed))
        self.now = 0.0
        self.asked: TransactionRequest | None = None
        self.epochs = 0
        self.lost: set[tuple[int, int]] = set()
        """The ids and epochs of requests that may still be carried out."""
        self.is_settled = False
        self.steps: set[tuple[TransactionState, TransactionState]] = set()

    def step(self) -> None:
        before, number = self.core.state, self.core.number
        try:
            self.random.choice((self.call, self.records, self.ask, self.ask, self.settle))()
        except TransactionError:
            assert self.core.state is before, "a refused call changes nothing"
        if self.core.state is not before:
            self.steps.add((before, self.core.state))
            assert (self.core.error is None) == (
                self.core.state not in (TransactionState.ABORTABLE, TransactionState.FATAL)
            )
        if self.core.number != number:
            assert (self.core.identity.id, self.core.identity.epoch) not in self.lost
            assert self.asked is None, "nothing of the former transaction is in flight"
            self.is_settled = False
        assert self.core.has_next <= (self.asked is None)

    def call(self) -> None:
        core = self.core
        call = self.random.choice(
            (core.on_open, core.on_begin, core.on_begin, core.on_commit, core.on_abort)
        )
        before = core.state
        call()
        if core.state is TransactionState.ABORTING and before is not core.state:
            self.is_settled = False

    def records(self) -> None:
        where, choice = self.random.choice((T0, T1)), self.random.randrange(6)
        if choice < 3:
            if not (self.is_settled and self.core.is_ending):  # then no records are left
                self.core.on_records(where)
            assert not (self.core.may_send_to(where) and self.core.is_over)
        elif choice < 4:
            self.core.on_offsets(SentOffsets(GROUP, {where: OffsetAndMetadata(1)}))
        elif choice < 5:
            self.core.on_waited()
        elif self.random.random() < 0.5:
            codes = (ErrorCode.INVALID_RECORD, ErrorCode.PRODUCER_FENCED)
            self.core.on_failed(KafkaError(self.random.choice(codes)))

    def settle(self) -> None:
        if self.core.is_ending:
            self.is_settled = True
            self.core.on_settled(is_unsure=self.random.random() < 0.3)

    def ask(self) -> None:
        """Send the next request, or answer the one that is in flight."""
        if self.asked is None:
            ready = self.core.ready(self.now)
            self.now = ready.wake or self.now
            self.asked = ready.ask
            if ready.ask is not None and isinstance(ready.ask.request, EndTxnRequest):
                assert self.is_settled, "an end leaves after all records are decided"
            return
        assert self.core.ready(self.now).ask is None, "one request at a time"
        ask, self.asked = self.asked, None
        self.core.on_versions(speaks_v2=self.random.random() < 0.7)
        self.core.on_answer(ask, self.answer(ask.request), self.now)

    def answer(self, request: Any) -> Any:
        chance = self.random.random()
        if chance < 0.2:
            if not isinstance(request, InitProducerIdRequest):
                self.lost.add((self.core.identity.id, self.core.identity.epoch))
            return LOST
        code = 0
        if chance < 0.45:
            fenced = _FENCED if self.random.random() < 0.1 else ()
            lost = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            code = self.random.choice((*_PASSING, *fenced, *lost))
        if isinstance(request, InitProducerIdRequest | EndTxnRequest):
            is_bumped = isinstance(request, InitProducerIdRequest) or self.core.is_v2
            self.epochs += not code
            given = (7, self.epochs) if is_bumped and not code else (-1, -1)
            is_end = isinstance(request, EndTxnRequest)
            made = EndTxnResponse if is_end else InitProducerIdResponse
            return made(error_code=code, producer_id=given[0], producer_epoch=given[1])
        if isinstance(request, AddOffsetsToTxnRequest):
            return AddOffsetsToTxnResponse(error_code=code)
        if isinstance(request, committing.TxnOffsetCommitRequest):
            (topic,) = request.topics
            return kept(code, topic.partitions[0].partition_index)
        (wanted,) = request.v3_and_below_topics
        return added(*(TopicPartition("t", each) for each in wanted.partitions), code=code)


def test_in_any_order_of_events_the_table_is_all_that_happens_and_nothing_late_counts() -> None:
    seen: set[tuple[TransactionState, TransactionState]] = set()
    for seed in range(400):
        wanderer = Wanderer(seed)
        for _ in range(200):
            wanderer.step()
        seen |= wanderer.steps
    assert seen == {(before, after) for before, found in TRANSITIONS.items() for after in found}
