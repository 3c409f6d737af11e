"""The transactions of one producer, one after another: which state they are in, and which request
comes next. No IO; `transactions` carries it out.

    UNINITIALIZED -> INITIALIZING -> READY -> IN_TRANSACTION -> COMMITTING | ABORTING -> READY

An error that only an abort heals leads to ABORTABLE, one that nothing heals to FATAL.

Invariants: one request is in flight at a time. Records are sent only between `begin` and the
request that ends the transaction, and that leaves only after each of them is decided
(`on_settled`): so no record of the next transaction is sent before the answer, and none of the
former one later. A record that was sent without an answer may still arrive later, so such a
transaction ends under a new producer epoch, which makes the brokers reject the old one.

Version 2 (KIP-890): a broker adds a partition to the transaction with the first batch, and EndTxn
raises the epoch. Version 1: the producer adds partitions and groups before it uses them
(AddPartitionsToTxn, AddOffsetsToTxn), the epoch stays, and InitProducerId raises it where the
outcome of a batch is unknown: it aborts the open transaction as well. The version is that of the
cluster's `transaction.version` when the transaction begins.

Under version 1 a request without an answer may be carried out during the next transaction, as that
has the same epoch: 1. EndTxn is sent, and the connection is lost. 2. It is sent again, and the next
transaction begins. 3. The first copy arrives, and commits half of that one. So such a transaction
is followed by InitProducerId, before the next one begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.producer.refusal import CONCURRENT_S, UNANSWERED
from moldau.client.producer.transaction_errors import (
    FatalTransactionError,
    RetriableTransactionError,
    TransactionError,
    is_fatal,
    of_kind,
)
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, error_from, may_work_later
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import add_partitions_to_txn as adding
from moldau.protocol.messages import api_of
from moldau.protocol.messages import txn_offset_commit as committing
from moldau.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.records import NO_PRODUCER, Producer
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from random import Random


class TransactionState(Enum):
    """The state of a transactional producer; see the module's text."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE = "in a transaction that must be aborted"
    FATAL = "ended by an error"


TRANSITIONS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.UNINITIALIZED: frozenset((TransactionState.INITIALIZING,)),
    TransactionState.INITIALIZING: frozenset((TransactionState.READY, TransactionState.FATAL)),
    TransactionState.READY: frozenset((TransactionState.IN_TRANSACTION, TransactionState.FATAL)),
    TransactionState.IN_TRANSACTION: frozenset(
        (
            TransactionState.COMMITTING,
            TransactionState.ABORTING,
            TransactionState.ABORTABLE,
            TransactionState.FATAL,
        )
    ),
    TransactionState.COMMITTING: frozenset(
        (
            TransactionState.READY,
            TransactionState.ABORTING,
            TransactionState.ABORTABLE,
            TransactionState.FATAL,
        )
    ),
    TransactionState.ABORTING: frozenset((TransactionState.READY, TransactionState.FATAL)),
    TransactionState.ABORTABLE: frozenset((TransactionState.ABORTING, TransactionState.FATAL)),
    TransactionState.FATAL: frozenset(),
}

V2_END_TXN: Final = 5
"""The first version of EndTxn that raises the epoch."""
NEWEST_V1: Final[Mapping[type[Request], int]] = {
    EndTxnRequest: 4,
    committing.TxnOffsetCommitRequest: 4,
    adding.AddPartitionsToTxnRequest: 3,
}
"""The newest versions for a transaction of version 1. Later ones of AddPartitionsToTxn are for
brokers."""
PRODUCE_NEWEST_V1: Final = 11
_FATAL_TO_ASK: Final = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE))
"""Fatal from a coordinator. From a partition's leader, an abort may still heal them."""
_LOST_ID: Final = frozenset((ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID))
_OPEN: Final = (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A request for the transaction's coordinator, or for that of the group `group_id`."""

    request: Request
    response: type[Response]
    group_id: str | None = None
    version_max: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionReady:
    """What the shell must do: send `ask` and call `on_answer`, or come back at `wake`."""

    ask: TransactionRequest | None = None
    wake: float | None = None


@dataclass(slots=True, eq=False)
class SentOffsets:
    """Offsets of a group that are to be committed with the transaction; `left` are unconfirmed."""

    group: GroupMetadata
    left: dict[TopicPartition, OffsetAndMetadata]


@dataclass(slots=True)
class _Parts:
    """What belongs to the present transaction."""

    wanted: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions to be added before anything is sent to them (version 1)."""
    added: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: deque[SentOffsets] = field(default_factory=deque)
    has_begun: bool = False
    """Whether the coordinator may know the transaction."""
    is_settled: bool = False
    """Whether every record is decided, so that the transaction may end."""
    needs_epoch: bool = False
    """Whether the next one needs a new epoch, as something of this one may still arrive."""
    has_ended: bool = False
    """Whether its end is confirmed. The epoch may still have to be raised."""


class TransactionStates:
    """The transactions of a producer with this transactional id."""

    def __init__(
        self, transactional_id: str, timeout_ms: int, backoff: Backoff, random: Random
    ) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.identity = NO_PRODUCER
        self.error: TransactionError | None = None
        """Why it is ABORTABLE or FATAL."""
        self.trouble: KafkaError | None = None
        """The error that the present request is tried again after."""
        self.is_v2 = False
        """Whether the present transaction is of version 2."""
        self.number = 0
        """The number of transactions that were begun."""
        self._timeout_ms = timeout_ms
        self._backoff = backoff
        self._random = random
        self._parts = _Parts()
        self._asked: TransactionRequest | None = None
        self._tries = 0
        self._not_before = 0.0
        self._speaks_v2 = False
        self._has_lost_id = False
        self.untold: TransactionState | None = None
        """How the last transaction was to end, until its user knows that it has: a call that gave
        up waiting is made again, and then it may have ended."""

    def _become(self, state: TransactionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} -> {state.name}"
        self.state = state

    # What its user does

    def initialize(self) -> None:
        """Ask for the producer id, which fences all other producers of the transactional id."""
        if self.state is TransactionState.UNINITIALIZED:
            self._become(TransactionState.INITIALIZING)

    def begin(self) -> None:
        """Begin a transaction. Raise TransactionError if one is open, or after an error."""
        if self.state is TransactionState.FATAL:
            raise self.failure()
        if self.state is not TransactionState.READY:
            raise self._misused("begin_transaction", _BEGIN_FIRST.get(self.state, ""))
        self._become(TransactionState.IN_TRANSACTION)
        self.untold = None
        self._parts = _Parts()
        self.is_v2 = self._speaks_v2
        self.number += 1

    def check_open(self, *, is_ending: bool = False) -> None:
        """Raise TransactionError if records and offsets cannot become a part of a transaction.
        `is_ending`: its end was called, but sends that began before may go on."""
        if self.state is TransactionState.IN_TRANSACTION and is_ending:
            raise self._misused("send", _SEND_FIRST[TransactionState.COMMITTING])
        if self.state is not TransactionState.IN_TRANSACTION:
            if self.error is not None:
                raise self.failure()
            raise self._misused("send", _SEND_FIRST.get(self.state, _BEGIN))

    def commit(self) -> None:
        """Begin to commit; do nothing if that has begun. Call `on_settled` when all is decided."""
        if self.error is not None:
            raise self.failure()
        if _ends_by(self, TransactionState.COMMITTING):
            return
        if self.state is not TransactionState.IN_TRANSACTION:
            raise self._misused("commit_transaction", _BEGIN)
        self._become(TransactionState.COMMITTING)
        self.untold = TransactionState.COMMITTING

    def abort(self) -> None:
        """Begin to abort; do nothing if that has begun. Call `on_settled` when all is decided."""
        if self.state is TransactionState.FATAL:
            raise self.failure()
        if _ends_by(self, TransactionState.ABORTING):
            return
        if self.state is TransactionState.COMMITTING and self._parts.is_settled:
            raise RetriableTransactionError(
                ErrorCode.REQUEST_TIMED_OUT,
                "the commit was sent, and may be done: call commit_transaction again for its "
                "outcome. It cannot be aborted any more",
                transactional_id=self.transactional_id,
            )
        if self.state not in (
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE,
            TransactionState.COMMITTING,
        ):
            raise self._misused("abort_transaction", _BEGIN)
        self._parts.offsets.clear()
        self._parts.wanted.clear()
        self._parts.is_settled = False
        self.error = self.trouble = None
        self._not_before = 0.0
        self._become(TransactionState.ABORTING)
        self.untold = TransactionState.ABORTING

    def add_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> SentOffsets:
        """Commit these offsets with the transaction. They are confirmed when nothing is `left`."""
        self.check_open()
        sent = SentOffsets(group, dict(offsets))
        self._parts.offsets.append(sent)
        return sent

    @property
    def may_abort(self) -> bool:
        """Whether `abort` is possible."""
        if self.state is TransactionState.COMMITTING:
            return not self._parts.is_settled
        return self.state in (
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE,
            TransactionState.ABORTING,
        )

    def _misused(self, call: str, reason: str) -> TransactionError:
        return TransactionError(
            ErrorCode.INVALID_TXN_STATE,
            f"{call}: {reason}" if reason else f"{call}: not possible now",
            state=self.state.value,
            transactional_id=self.transactional_id,
        )

    def failure(self) -> TransactionError:
        """Return a copy of the error to raise: one raised twice would collect all tracebacks."""
        assert self.error is not None
        found = type(self.error)(self.error.code, self.error.reason, **self.error.context)
        found.__cause__ = self.error.__cause__
        return found

    # What happens to its records

    @property
    def is_over(self) -> bool:
        """Whether no more records are sent: what waits has failed, or is dropped."""
        return self.state in (
            TransactionState.ABORTABLE,
            TransactionState.ABORTING,
            TransactionState.FATAL,
        )

    def may_send_to(self, where: TopicPartition) -> bool:
        """Whether a batch may be sent to the partition now. The first call makes it a part of the
        transaction, in version 1 by a request that has to be answered first."""
        parts = self._parts
        if self.state not in _OPEN:
            return False
        if self.is_v2:
            parts.has_begun = True
            return True
        if where in parts.added:
            return True
        parts.wanted[where] = None
        return False

    def on_failed(self, error: KafkaError) -> None:
        """Records have failed, or were never taken: the transaction can only be aborted."""
        if self.state in _OPEN and not self._parts.is_settled:
            self._fail(error)

    def on_waited(self) -> None:
        """A call has waited for `max.block.ms`. The coordinator gives no final answer for offsets
        of a topic or partition that does not exist: then the transaction can only be aborted."""
        trouble = self.trouble
        is_missing = trouble is not None and trouble.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if trouble is not None and is_missing and self._parts.offsets and self.state in _OPEN:
            self._fail(trouble)

    def on_settled(self, *, is_unsure: bool = False) -> None:
        """Every record is decided: the transaction may end. `is_unsure`: some may still arrive."""
        if self.state not in (TransactionState.COMMITTING, TransactionState.ABORTING):
            return
        parts = self._parts
        parts.is_settled = True
        parts.needs_epoch = parts.needs_epoch or is_unsure
        self._end_if_empty()

    def _end_if_empty(self) -> None:
        """End a transaction that the coordinator does not know of, unless the id is lost: the next
        transaction would be refused as well."""
        parts = self._parts
        is_known = parts.has_begun or parts.offsets or parts.needs_epoch or self._has_lost_id
        if parts.is_settled and not is_known and self._asked is None:
            self._end()

    @property
    def has_ended(self) -> bool:
        """Whether the end of the last transaction is confirmed."""
        return self.state is TransactionState.READY or self._parts.has_ended

    # What comes next

    def on_versions(self, *, speaks_v2: bool) -> None:
        """Note whether the cluster has transactions of version 2, for the next one that begins."""
        self._speaks_v2 = speaks_v2

    @property
    def has_next(self) -> bool:
        """Whether a request is to be sent, now or after a wait."""
        return self._asked is None and self._next() is not None

    def ready(self, now: float) -> TransactionReady:
        """Return what to do next. An `ask` counts as sent."""
        if self._asked is not None:
            return TransactionReady()
        ask = self._next()
        if ask is None:
            return TransactionReady()
        if now < self._not_before:
            return TransactionReady(wake=self._not_before)
        self._asked = ask
        return TransactionReady(ask)

    def _next(self) -> TransactionRequest | None:
        parts = self._parts
        if self.state is TransactionState.INITIALIZING or parts.has_ended:
            return self._init()
        if self.state in _OPEN:
            if parts.wanted:
                return self._add_partitions()
            if parts.offsets:
                return self._send_offsets(parts.offsets[0])
            if self.state is TransactionState.COMMITTING and parts.is_settled:
                return self._end_txn(commits=True)
        if self.state is TransactionState.ABORTING and parts.is_settled:
            if self._has_lost_id or (parts.needs_epoch and not self.is_v2):
                return self._init()
            return self._end_txn(commits=False)
        return None

    def _ask(
        self, request: Request, response: type[Response], group_id: str | None = None
    ) -> TransactionRequest:
        kind = type(request)
        is_new = self.is_v2 and kind is not adding.AddPartitionsToTxnRequest
        return TransactionRequest(
            request, response, group_id, None if is_new else NEWEST_V1.get(kind)
        )

    def _init(self) -> TransactionRequest:
        known = NO_PRODUCER if self._has_lost_id else self.identity
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=known.id,
            producer_epoch=known.epoch,
        )
        return self._ask(request, InitProducerIdResponse)

    def _add_partitions(self) -> TransactionRequest:
        by_topic: dict[str, list[int]] = {}
        for where in self._parts.wanted:
            by_topic.setdefault(where.topic, []).append(where.partition)
        request = adding.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[
                adding.AddPartitionsToTxnTopic(name=name, partitions=found)
                for name, found in by_topic.items()
            ],
        )
        return self._ask(request, adding.AddPartitionsToTxnResponse)

    def _send_offsets(self, sent: SentOffsets) -> TransactionRequest:
        group = sent.group
        if not self.is_v2 and group.group_id not in self._parts.groups:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.identity.id,
                producer_epoch=self.identity.epoch,
                group_id=group.group_id,
            )
            return self._ask(request, AddOffsetsToTxnResponse)
        self._parts.has_begun = True
        by_topic: dict[str, list[committing.TxnOffsetCommitRequestPartition]] = {}
        for where, each in sent.left.items():
            partition = committing.TxnOffsetCommitRequestPartition(
                partition_index=where.partition,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                committed_metadata=each.metadata,
            )
            by_topic.setdefault(where.topic, []).append(partition)
        offsets = committing.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.identity.id,
            producer_epoch=self.identity.epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=[
                committing.TxnOffsetCommitRequestTopic(name=name, partitions=found)
                for name, found in by_topic.items()
            ],
        )
        return self._ask(offsets, committing.TxnOffsetCommitResponse, group.group_id)

    def _end_txn(self, *, commits: bool) -> TransactionRequest:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.id,
            producer_epoch=self.identity.epoch,
            committed=commits,
        )
        return self._ask(request, EndTxnResponse)

    # Answers

    def on_answer(self, ask: TransactionRequest, answer: Response | KafkaError, now: float) -> None:
        """Handle the answer to `ask`, or the error that came instead of one."""
        assert ask is self._asked
        self._asked = None
        error = answer if isinstance(answer, KafkaError) else None
        if error is None:
            self.trouble = None
            response: Any = answer
            if isinstance(response, adding.AddPartitionsToTxnResponse):
                error = self._on_added(ask, response)
            elif isinstance(response, committing.TxnOffsetCommitResponse):
                error = self._on_offsets(response)
            elif response.error_code:
                error = error_from(api_of(response), response.error_code)
            else:
                self._succeeded(ask, response)
        elif error.code in UNANSWERED and not self.is_v2:
            self._parts.needs_epoch = True
        if error is None:
            self._tries, self._not_before = 0, 0.0
        else:
            self._refused(ask, error, now)
        if self.state in (TransactionState.COMMITTING, TransactionState.ABORTING):
            self._end_if_empty()

    def _succeeded(self, ask: TransactionRequest, response: Any) -> None:
        if isinstance(response, AddOffsetsToTxnResponse):
            self._parts.groups.add(cast(AddOffsetsToTxnRequest, ask.request).group_id)
            self._parts.has_begun = True
            return
        has_identity = isinstance(response, InitProducerIdResponse) or response.producer_id >= 0
        if has_identity:
            self.identity = Producer(response.producer_id, response.producer_epoch, 0, True)
        is_end = isinstance(response, EndTxnResponse)
        if not is_end:
            self._has_lost_id = False
        if is_end and self._parts.needs_epoch and not self.is_v2:
            self._parts.has_ended = True
        else:
            self._end()

    def _on_added(
        self, ask: TransactionRequest, response: adding.AddPartitionsToTxnResponse
    ) -> KafkaError | None:
        """Note which partitions were added. Return the worst error of the others."""
        errors: list[KafkaError] = []
        for topic in response.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                where = TopicPartition(topic.name, each.partition_index)
                if not each.partition_error_code:
                    self._parts.has_begun = True
                    self._parts.added.add(where)
                    self._parts.wanted.pop(where, None)
                elif each.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                    code = each.partition_error_code
                    errors.append(error_from(api_of(response), code, **where._asdict()))
        return _worst(errors)

    def _on_offsets(self, response: committing.TxnOffsetCommitResponse) -> KafkaError | None:
        """Note which offsets are confirmed. Return the worst error of the others."""
        if not self._parts.offsets:  # it is being aborted
            return None
        sent = self._parts.offsets[0]
        errors: list[KafkaError] = []
        for topic in response.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                if not each.error_code:
                    sent.left.pop(where, None)
                else:
                    facts = {"group": sent.group.group_id, **where._asdict()}
                    errors.append(error_from(api_of(response), each.error_code, **facts))
        if not sent.left:
            self._parts.offsets.popleft()
        return _worst(errors)

    def _refused(self, ask: TransactionRequest, error: KafkaError, now: float) -> None:
        """Try again, abort or give up, whichever the error asks for."""
        if self.state is TransactionState.FATAL:
            return
        if may_work_later(error):
            self.trouble = without_frames(error)
            self._tries += 1
            is_busy = error.code is ErrorCode.CONCURRENT_TRANSACTIONS
            wait_s = CONCURRENT_S if is_busy else self._backoff.wait_s(self._tries, self._random)
            self._not_before = now + wait_s
            return
        if self.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING):
            self._has_lost_id = self._has_lost_id or error.code in _LOST_ID
            self._fail(error, is_final=self._parts.has_ended or error.code in _FATAL_TO_ASK)
        elif self.state is TransactionState.ABORTING and self._heals_by_new_epoch(ask, error):
            self._not_before = 0.0
        elif self.state in (TransactionState.INITIALIZING, TransactionState.ABORTING):
            self._fail(error, is_final=True)

    def _heals_by_new_epoch(self, ask: TransactionRequest, error: KafkaError) -> bool:
        """Whether an abort that was refused can end by asking for a new id or epoch instead."""
        if not isinstance(ask.request, EndTxnRequest):
            return not (isinstance(ask.request, InitProducerIdRequest) or is_fatal(error.code))
        if error.code in _LOST_ID and not self._has_lost_id:
            self._has_lost_id = True
            return True
        return False

    def _fail(self, error: KafkaError, *, is_final: bool = False) -> None:
        self.error = of_kind(error, is_final=is_final)
        is_over = isinstance(self.error, FatalTransactionError)
        self._become(TransactionState.FATAL if is_over else TransactionState.ABORTABLE)
        self._parts.offsets.clear()
        self._parts.wanted.clear()

    def _end(self) -> None:
        self._become(TransactionState.READY)
        self.error = self.trouble = None
        self._parts = _Parts()


def _ends_by(states: TransactionStates, end: TransactionState) -> bool:
    """Whether the last transaction ends so, or has since its user asked."""
    has_ended = states.state is TransactionState.READY and states.untold is end
    return has_ended or states.state is end


def _worst(errors: list[KafkaError]) -> KafkaError | None:
    """Return the first error that a retry does not heal, else any."""
    lasting = [each for each in errors if not may_work_later(each)]
    return next(iter((*lasting, *errors)), None)


_BEGIN: Final = (
    "there is no open transaction: call begin_transaction first, or use "
    "`async with producer.transaction():`"
)
_END_FIRST: Final = "a transaction is open: commit or abort it first"
_BEGIN_FIRST: Final[Mapping[TransactionState, str]] = {
    TransactionState.IN_TRANSACTION: _END_FIRST,
    TransactionState.ABORTABLE: "the open transaction has failed: call abort_transaction first",
    TransactionState.COMMITTING: "the commit is not confirmed yet: call commit_transaction again",
    TransactionState.ABORTING: "the abort is not confirmed yet: call abort_transaction again",
}
_SEND_FIRST: Final[Mapping[TransactionState, str]] = {
    TransactionState.COMMITTING: "the transaction is being committed: send before that",
    TransactionState.ABORTING: "the transaction is being aborted: begin the next one first",
}
