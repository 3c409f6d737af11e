"""The transactions of one producer, one after another, decided without IO: which calls are possible
now, which records may be sent, which request comes next, and what its answer means.

A transactional id names a producer across restarts. A broker is its coordinator, and keeps the
producer id, the epoch and the open transaction. InitProducerId raises the epoch: from then on the
brokers reject what older epochs send (those producers are fenced), and what these have left open is
aborted. Records carry id and epoch, so each belongs to one transaction; EndTxn has markers written
that say whether it counts.

Version 2 (KIP-890): a broker adds a partition to the transaction with the first batch, and EndTxn
raises the epoch. Version 1: the producer adds partitions and groups before it uses them
(AddPartitionsToTxn, AddOffsetsToTxn), the epoch stays, and InitProducerId raises it where the
outcome of a batch is unknown: it aborts the open transaction as well. The version is that of the
cluster's `transaction.version` when the transaction begins.

    UNINITIALIZED -> INITIALIZING -> READY -> IN_TRANSACTION -> COMMITTING | ABORTING -> READY

An error that only an abort heals leads to ABORTABLE, one that nothing heals to FATAL; `TRANSITIONS`
is the whole table.

Events, which change the state and return nothing:

    on_open, on_begin, on_commit, on_abort, on_offsets    calls; each raises if it is not possible
    on_ending, on_reported    an end was called; its user knows how it ended
    on_send, on_sent          a send begins and returns; an end waits until none is left
    on_records                records wait for a partition
    on_failed                 records have failed, or were refused
    on_settled                every record is decided
    on_versions, on_answer    from the coordinators
    on_waited                 a call has waited for `max.block.ms`

`ready(now)` returns the next request, which counts as sent, or when to come back. What records may
do follows from the state: `may_send_to`, and `refusal` if all that are left must fail.

Invariants:
- One request to a coordinator is in flight at a time. Batches are in flight beside it, but only to
  partitions that are a part of the transaction, and never beside its end: EndTxn, or InitProducerId
  in its place, leaves only after each record is decided. So no record of the next transaction is
  sent before the answer, and none of the former one later.
- A record that was sent without an answer may still arrive, so such a transaction ends under a new
  epoch, which makes the brokers reject the old one.
- Under version 1 a request without an answer may be carried out during the next transaction, as
  that has the same epoch: 1. EndTxn is sent, and the connection is lost. 2. It is sent again, and
  the next transaction begins. 3. The first copy arrives, and commits half of that one. So such a
  transaction is followed by InitProducerId, before the next one begins.

Errors of coordinators. Retried as they are: all that may pass, after a wait. FATAL: what
`is_fatal` names, anything that INITIALIZING gets, and what says that another producer has the id
now. Healed while ABORTING: a lost producer id, by a new one, and a refused request other than the
end. All others make the transaction ABORTABLE.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from moldau.client.producer.refusal import CONCURRENT_S, UNANSWERED
from moldau.client.producer.transaction_errors import (
    FatalTransactionError,
    RetriableTransactionError,
    TransactionError,
    abortable,
    dropped,
    is_fatal,
    of_kind,
)
from moldau.client.producer.transaction_requests import (
    SentOffsets,
    TransactionRequest,
    add_partitions,
    codes_in,
    commit_offsets,
    of_version,
)
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, error_from, may_work_later
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import api_of
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
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


_UNINITIALIZED, _INITIALIZING = TransactionState.UNINITIALIZED, TransactionState.INITIALIZING
_READY, _IN_TRANSACTION = TransactionState.READY, TransactionState.IN_TRANSACTION
_COMMITTING, _ABORTING = TransactionState.COMMITTING, TransactionState.ABORTING
_ABORTABLE, _FATAL = TransactionState.ABORTABLE, TransactionState.FATAL

TRANSITIONS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _UNINITIALIZED: frozenset((_INITIALIZING,)),
    _INITIALIZING: frozenset((_READY, _FATAL)),
    _READY: frozenset((_IN_TRANSACTION,)),
    _IN_TRANSACTION: frozenset((_COMMITTING, _ABORTING, _ABORTABLE, _FATAL)),
    _COMMITTING: frozenset((_READY, _ABORTING, _ABORTABLE, _FATAL)),
    _ABORTING: frozenset((_READY, _FATAL)),
    _ABORTABLE: frozenset((_ABORTING,)),
    _FATAL: frozenset(),
}

_OPEN: Final = (_IN_TRANSACTION, _COMMITTING)
_ENDING: Final = (_COMMITTING, _ABORTING)
_OVER: Final = (_ABORTABLE, _ABORTING, _FATAL)
_FATAL_TO_ASK: Final = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE))
"""Fatal from a coordinator. From a partition's leader, an abort may still heal them."""
_LOST_ID: Final = frozenset((ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID))

_UNKNOWN_IDS_MAX: Final = 5
"""After so many answers that a topic's id is not known, the topic counts as deleted: a coordinator
that lags behind would know it by then."""


@dataclass(frozen=True, slots=True)
class TransactionReady:
    """What the shell must do: send `ask` and call `on_answer`, or come back at `wake`."""

    ask: TransactionRequest | None = None
    wake: float | None = None


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


class TransactionCore:
    """The transactions of a producer with this transactional id."""

    def __init__(
        self, transactional_id: str, timeout_ms: int, backoff: Backoff, random: Random
    ) -> None:
        self.transactional_id = transactional_id
        self.state = _UNINITIALIZED
        self.identity = NO_PRODUCER
        self.error: TransactionError | None = None
        """Why it is ABORTABLE or FATAL."""
        self.trouble: KafkaError | None = None
        """The error that the present request is tried again after."""
        self.is_v2 = False
        """Whether the present transaction is of version 2."""
        self.number = 0
        """The number of transactions that were begun."""
        self.sends = 0
        """The number of sends that have begun and not returned."""
        self._is_ending = False
        """Whether the transaction's end was called: no further send begins."""
        self._timeout_ms = timeout_ms
        self._backoff = backoff
        self._random = random
        self._parts = _Parts()
        self._asked: TransactionRequest | None = None
        self._tries = 0
        self._not_before = 0.0
        self._speaks_v2 = False
        self._has_lost_id = False
        self._unreported: TransactionState | None = None
        """How the last transaction was to end, until its user knows that it has: a call that gave
        up waiting is made again, and then it may have ended."""

    def _become(self, state: TransactionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} -> {state.name}"
        self.state = state

    # Calls

    def on_open(self) -> None:
        """Ask for the producer id, which fences all other producers of the transactional id."""
        if self.state is _UNINITIALIZED:
            self._become(_INITIALIZING)

    def on_begin(self) -> None:
        """Begin a transaction. Raise TransactionError if one is open, or after an error."""
        if self.state is _FATAL:
            raise self.failure()
        if self.state is not _READY:
            raise self._misused("begin_transaction", _BEGIN_FIRST.get(self.state, ""))
        self._become(_IN_TRANSACTION)
        self._unreported = None
        self._is_ending = False
        self._parts = _Parts()
        self.is_v2 = self._speaks_v2
        self.number += 1

    def on_ending(self) -> None:
        """The end was called: no further send begins, and those that have begun may go on."""
        self._is_ending = True

    def on_commit(self) -> None:
        """Begin to commit; do nothing if that has begun. `on_settled` follows."""
        if self.error is not None:
            raise self.failure()
        if self._ends_by(_COMMITTING):
            return
        if self.state is not _IN_TRANSACTION:
            raise self._misused("commit_transaction", _BEGIN)
        self._become(_COMMITTING)
        self._unreported = _COMMITTING

    def on_abort(self) -> None:
        """Begin to abort; do nothing if that has begun. `on_settled` follows."""
        if self.state is _FATAL:
            raise self.failure()
        if self._ends_by(_ABORTING):
            return
        if self.state is _COMMITTING and self._parts.is_settled:
            raise RetriableTransactionError(
                ErrorCode.REQUEST_TIMED_OUT,
                "the commit was sent, and may be done: call commit_transaction again for its "
                "outcome. It cannot be aborted any more",
                transactional_id=self.transactional_id,
            )
        if not self.may_abort:
            raise self._misused("abort_transaction", _BEGIN)
        self._drop_parts()
        self._parts.is_settled = False
        self.error = self.trouble = None
        self._not_before = 0.0
        self._become(_ABORTING)
        self._unreported = _ABORTING

    def on_offsets(self, sent: SentOffsets) -> None:
        """Commit these offsets with the transaction. They are confirmed when nothing is `left`."""
        self.check_open(is_new=True)
        self._parts.offsets.append(sent)

    def on_reported(self) -> None:
        """The user knows how the last transaction has ended."""
        self._unreported = None

    def _ends_by(self, end: TransactionState) -> bool:
        """Whether the last transaction ends so, or has since its user asked."""
        return self.state is end or (self.state is _READY and self._unreported is end)

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

    # What the calls ask

    def check_open(self, *, is_new: bool = False) -> None:
        """Raise TransactionError if records and offsets cannot become a part of a transaction. Also
        if `is_new` and its end was called: only what began before may go on."""
        if self.state is _IN_TRANSACTION:
            if is_new and self._is_ending:
                raise self._misused("send", _SEND_FIRST[_COMMITTING])
            return
        if self.error is not None:
            raise self.failure()
        raise self._misused("send", _SEND_FIRST.get(self.state, _BEGIN))

    @property
    def takes_records(self) -> bool:
        """Whether a send may begin now."""
        return self.state is _IN_TRANSACTION and not self._is_ending

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open, or its end is not confirmed, or an error has ended all."""
        return self.state not in (_UNINITIALIZED, _INITIALIZING, _READY)

    @property
    def may_abort(self) -> bool:
        """Whether an abort is possible."""
        is_sent = self.state is _COMMITTING and self._parts.is_settled
        return self.state in (*_ENDING, _IN_TRANSACTION, _ABORTABLE) and not is_sent

    @property
    def is_ending(self) -> bool:
        """Whether the end of a transaction is on its way."""
        return self.state in _ENDING

    @property
    def has_ended(self) -> bool:
        """Whether the end of the last transaction is confirmed."""
        return self.state is _READY or self._parts.has_ended

    # Records

    def on_send(self) -> None:
        """A send begins. Raise TransactionError outside a transaction."""
        self.check_open(is_new=True)
        self.sends += 1

    def on_sent(self) -> None:
        """A send has returned or failed."""
        self.sends -= 1

    def on_records(self, where: TopicPartition) -> None:
        """Records wait for the partition: it becomes a part of the transaction, in version 1 by a
        request that has to be answered first."""
        parts = self._parts
        if self.state in _OPEN:
            if self.is_v2:
                parts.has_begun = True
            elif where not in parts.added:
                parts.wanted[where] = None

    def may_send_to(self, where: TopicPartition) -> bool:
        """Whether a batch may be sent to the partition now."""
        return self.state in _OPEN and (self.is_v2 or where in self._parts.added)

    def on_failed(self, error: KafkaError) -> None:
        """Records have failed, or were never taken: the transaction can only be aborted."""
        if self.state in _OPEN and not self._parts.is_settled:
            self._fail(error)

    @property
    def is_over(self) -> bool:
        """Whether no more records are sent: all that are left fail, by `refusal`."""
        return self.state in _OVER

    def refusal(self) -> TransactionError:
        """Return the error of the records that are left when a transaction is over."""
        return dropped(self.transactional_id) if self.error is None else self.failure()

    def on_settled(self, *, is_unsure: bool) -> None:
        """Every record is decided: the transaction may end. `is_unsure`: some may still arrive."""
        if self.state in _ENDING:
            self._parts.is_settled = True
            self._parts.needs_epoch = self._parts.needs_epoch or is_unsure
            self._end_if_empty()

    def _end_if_empty(self) -> None:
        """End a transaction that the coordinator does not know of, unless the id is lost: the next
        transaction would be refused as well."""
        parts = self._parts
        is_known = parts.has_begun or parts.offsets or parts.needs_epoch or self._has_lost_id
        if parts.is_settled and not is_known and self._asked is None:
            self._end()

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
        ask = self._next() if self._asked is None else None
        if ask is None:
            return TransactionReady()
        if now < self._not_before:
            return TransactionReady(wake=self._not_before)
        self._asked = ask
        if ask.group_id is not None:
            self._parts.has_begun = True
        return TransactionReady(ask)

    def _next(self) -> TransactionRequest | None:
        parts = self._parts
        if self.state is _FATAL:
            return None
        if self.state is _INITIALIZING or parts.has_ended:
            return self._init()
        if self.state in _OPEN:
            if parts.wanted:
                return self._ask(add_partitions(self.transactional_id, self.identity, parts.wanted))
            if parts.offsets:
                return self._send_offsets(parts.offsets[0])
        if self.state in _ENDING and parts.is_settled:
            is_abort = self.state is _ABORTING
            if is_abort and (self._has_lost_id or (parts.needs_epoch and not self.is_v2)):
                return self._init()
            return self._ask(
                EndTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.identity.id,
                    producer_epoch=self.identity.epoch,
                    committed=not is_abort,
                )
            )
        return None

    def _ask(self, request: Request, group_id: str | None = None) -> TransactionRequest:
        return of_version(request, group_id, is_v2=self.is_v2)

    def _init(self) -> TransactionRequest:
        known = NO_PRODUCER if self._has_lost_id else self.identity
        return self._ask(
            InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=known.id,
                producer_epoch=known.epoch,
            )
        )

    def _send_offsets(self, sent: SentOffsets) -> TransactionRequest:
        group_id = sent.group.group_id
        if self.is_v2 or group_id in self._parts.groups:
            return self._ask(commit_offsets(self.transactional_id, self.identity, sent), group_id)
        return self._ask(
            AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.identity.id,
                producer_epoch=self.identity.epoch,
                group_id=group_id,
            )
        )

    # Answers

    def on_answer(self, ask: TransactionRequest, answer: Response | KafkaError, now: float) -> None:
        """Handle the answer to `ask`, or the error that came instead of one."""
        assert ask is self._asked
        self._asked = None
        error: KafkaError | None
        if isinstance(answer, KafkaError):
            error = answer
            if error.code in UNANSWERED and not self.is_v2:
                self._parts.needs_epoch = True
        else:
            self.trouble = None
            error = self._on_response(ask, answer)
        if error is None:
            self._tries, self._not_before = 0, 0.0
        else:
            self._on_error(ask, error, now)
        if self.state in _ENDING:
            self._end_if_empty()

    def _on_response(self, ask: TransactionRequest, response: Any) -> KafkaError | None:
        """Apply a response. Return its error, if it has one; of several the worst."""
        parts = self._parts
        if isinstance(response, AddPartitionsToTxnResponse):
            return self._on_added(ask.request, response)
        if isinstance(response, TxnOffsetCommitResponse):
            return self._on_offsets_committed(ask.request, response)
        if response.error_code:
            return error_from(api_of(response), response.error_code)
        if isinstance(ask.request, AddOffsetsToTxnRequest):
            parts.groups.add(ask.request.group_id)
            parts.has_begun = True
            return None
        is_end = isinstance(ask.request, EndTxnRequest)
        if not is_end or response.producer_id >= 0:
            self.identity = Producer(response.producer_id, response.producer_epoch, 0, True)
        if not is_end:
            self._has_lost_id = False
        if is_end and parts.needs_epoch and not self.is_v2:
            parts.has_ended = True
        else:
            self._end()
        return None

    def _on_added(
        self, request: Request, response: AddPartitionsToTxnResponse
    ) -> KafkaError | None:
        """Note which partitions were added. Return the worst error of the others."""
        parts, errors = self._parts, []
        for where, code in codes_in(request, response):
            if not code:
                parts.has_begun = True
                parts.added.add(where)
                parts.wanted.pop(where, None)
            elif code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                errors.append(error_from(api_of(response), code, **where._asdict()))
        return _worst(errors)

    def _on_offsets_committed(
        self, request: Request, response: TxnOffsetCommitResponse
    ) -> KafkaError | None:
        """Note which offsets are confirmed. Return the worst error of the others."""
        if not self._parts.offsets:  # it is being aborted
            return None
        sent, errors = self._parts.offsets[0], []
        for where, code in codes_in(request, response):
            if not code:
                sent.left.pop(where, None)
            else:
                facts = {"group": sent.group.group_id, **where._asdict()}
                errors.append(error_from(api_of(response), code, **facts))
        if not sent.left:
            self._parts.offsets.popleft()
        worst = _worst(errors)
        if worst is None or worst.code is not ErrorCode.UNKNOWN_TOPIC_ID:
            return worst
        sent.unknown_ids += 1
        return worst if sent.unknown_ids < _UNKNOWN_IDS_MAX else abortable(worst)

    def _on_error(self, ask: TransactionRequest, error: KafkaError, now: float) -> None:
        """Try again, abort or give up, whichever the error asks for."""
        if self.state is _FATAL:
            return
        if may_work_later(error):
            self.trouble = without_frames(error)
            self._tries += 1
            is_busy = error.code is ErrorCode.CONCURRENT_TRANSACTIONS
            wait_s = CONCURRENT_S if is_busy else self._backoff.wait_s(self._tries, self._random)
            self._not_before = now + wait_s
        elif self.state in _OPEN:
            self._has_lost_id = self._has_lost_id or error.code in _LOST_ID
            self._fail(error, is_final=self._parts.has_ended or error.code in _FATAL_TO_ASK)
        elif self.state is _ABORTING and self._heals_by_new_epoch(ask, error):
            self._not_before = 0.0
        elif self.state in (_INITIALIZING, _ABORTING):
            self._fail(error, is_final=True)

    def _heals_by_new_epoch(self, ask: TransactionRequest, error: KafkaError) -> bool:
        """Whether an abort that was refused can end by asking for a new id or epoch instead."""
        if not isinstance(ask.request, EndTxnRequest):
            return not (isinstance(ask.request, InitProducerIdRequest) or is_fatal(error.code))
        if error.code in _LOST_ID and not self._has_lost_id:
            self._has_lost_id = True
            return True
        return False

    def on_waited(self) -> None:
        """A call has waited for `max.block.ms`. The coordinator gives no final answer for offsets
        of a topic or partition that does not exist: then the transaction can only be aborted."""
        trouble = self.trouble
        is_missing = trouble is not None and trouble.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if trouble is not None and is_missing and self._parts.offsets and self.state in _OPEN:
            self._fail(trouble)

    def _fail(self, error: KafkaError, *, is_final: bool = False) -> None:
        self.error = of_kind(error, is_final=is_final)
        is_over = isinstance(self.error, FatalTransactionError)
        self._become(_FATAL if is_over else _ABORTABLE)
        self._drop_parts()

    def _drop_parts(self) -> None:
        """Ask for nothing more that would belong to the transaction."""
        self._parts.offsets.clear()
        self._parts.wanted.clear()

    def _end(self) -> None:
        self._become(_READY)
        self.error = self.trouble = None
        self._parts = _Parts()


def _worst(errors: list[KafkaError]) -> KafkaError | None:
    """Return the first error that a retry does not heal, else any."""
    lasting = [each for each in errors if not may_work_later(each)]
    return next(iter((*lasting, *errors)), None)


_BEGIN: Final = (
    "there is no open transaction: call begin_transaction first, or use "
    "`async with producer.transaction():`"
)
_BEGIN_FIRST: Final[Mapping[TransactionState, str]] = {
    _IN_TRANSACTION: "a transaction is open: commit or abort it first",
    _ABORTABLE: "the open transaction has failed: call abort_transaction first",
    _COMMITTING: "the commit is not confirmed yet: call commit_transaction again",
    _ABORTING: "the abort is not confirmed yet: call abort_transaction again",
}
_SEND_FIRST: Final[Mapping[TransactionState, str]] = {
    _COMMITTING: "the transaction is being committed: send before that",
    _ABORTING: "the transaction is being aborted: begin the next one first",
}
