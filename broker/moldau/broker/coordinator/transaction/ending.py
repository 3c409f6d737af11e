"""The end of transactions: EndTxn, time-outs and fencing, and the markers.

The tables of states are those of Kafka 4.3, one for clients of transaction version 2, which bumps
the epoch at each end, and one for older clients, which cannot learn of another epoch. While the
markers of an end are being written, a client is asked to wait before anything else is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.outcome import NOTHING, Outcome, Ticket, answered
from moldau.broker.coordinator.transaction.effects import WriteMarkers
from moldau.broker.coordinator.transaction.state import (
    BUMPS_SINCE,
    EPOCH_MAX,
    NO_EPOCH,
    NO_ID,
    NO_PARTITIONS,
    Transaction,
    TransactionStatus,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.end_txn import EndTxnResponse

if TYPE_CHECKING:
    from moldau.broker.coordinator.transaction.state import Partitions
    from moldau.broker.coordinator.transaction.transactions import Transactions
    from moldau.protocol.messages.end_txn import EndTxnRequest

_COMPLETE: Final = (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
_PREPARE: Final = {True: TransactionStatus.PREPARE_COMMIT, False: TransactionStatus.PREPARE_ABORT}
_DONE: Final = {True: TransactionStatus.COMPLETE_COMMIT, False: TransactionStatus.COMPLETE_ABORT}


def end_transaction(
    transactions: Transactions,
    message: EndTxnRequest,
    client_version: int,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    """Decide about EndTxn. `client_version` is the transaction version of the client."""
    known = transactions.existing(message.transactional_id)
    if client_version >= BUMPS_SINCE:
        known.check_settled()
        is_retry = _check_bumped(known, message)
        return _end_bumped(transactions, known, message.committed, is_retry, (ticket, now_ms))
    if known.producer_id != message.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.producer_epoch != message.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    known.check_settled()
    is_commit = message.committed
    if known.state is TransactionStatus.ONGOING:
        return prepare(transactions, known, ticket, now_ms, is_commit=is_commit)
    if known.state is _DONE[is_commit]:
        return answered(ticket, _answer(known))
    raise _refusal(known)


def _check_bumped(known: Transaction, message: EndTxnRequest) -> bool:
    """Check the producer of a client whose epoch is bumped at each end. Return whether the request
    repeats one that was carried out: then the client has the epoch before."""
    producer_id, epoch = message.producer_id, message.producer_epoch
    is_rotated = (
        known.previous_producer_id == producer_id
        and epoch == EPOCH_MAX - 1
        and known.producer_epoch == 0
    )
    if known.producer_id != producer_id and not is_rotated:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_bumped = known.producer_epoch == epoch + 1
    is_current = known.producer_epoch == epoch
    if known.state in _COMPLETE:
        is_fine = is_bumped or is_rotated or is_current
    else:
        is_fine = is_current
    if not is_fine:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return is_bumped or is_rotated


def _end_bumped(
    transactions: Transactions,
    known: Transaction,
    is_commit: bool,
    is_retry: bool,
    asked: tuple[Ticket, int],
) -> Outcome:
    ticket, now_ms = asked
    if known.state is TransactionStatus.ONGOING:
        return prepare(transactions, known, ticket, now_ms, is_commit=is_commit, bumps=True)
    if known.state in _COMPLETE and is_retry and known.state is _DONE[is_commit]:
        return answered(ticket, _answer(known))
    if is_commit or is_retry:
        raise _refusal(known)
    # A client aborts without any partition to get another epoch: after that no request that it has
    # sent before can join a transaction (KAFKA-18401).
    wall_ms = transactions.services.wall_ms(now_ms)
    producer_id, epoch = known.producer_id, known.producer_epoch + 1
    if known.is_exhausted:
        producer_id, epoch = transactions.services.new_producer_id(), 0
    aborted = known.moved(
        TransactionStatus.COMPLETE_ABORT,
        wall_ms,
        partitions=NO_PARTITIONS,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_epoch=known.producer_epoch,
        started_ms=wall_ms,
        client_version=BUMPS_SINCE,
    )
    return transactions.stored(aborted, ((ticket, _answer(aborted)),))


def _refusal(known: Transaction) -> KafkaError:
    """Return the error for an end that the state does not allow."""
    return KafkaError(ErrorCode.INVALID_TXN_STATE, state=known.state.shown)


def prepare(
    transactions: Transactions,
    known: Transaction,
    ticket: Ticket,
    now_ms: int,
    *,
    is_commit: bool,
    bumps: bool = False,
) -> Outcome:
    """Decide the end of an open transaction that its client asked for."""
    next_id, epoch, last_epoch = NO_ID, known.producer_epoch, known.last_epoch
    if bumps:
        epoch, last_epoch = epoch + 1, epoch
        if known.is_exhausted:
            next_id = transactions.services.new_producer_id()
    prepared = known.moved(
        _PREPARE[is_commit],
        transactions.services.wall_ms(now_ms),
        producer_epoch=epoch,
        last_epoch=last_epoch,
        next_producer_id=next_id,
        client_version=BUMPS_SINCE if bumps else 0,
    )
    return transactions.stored(prepared, ((ticket, _answer(prepared)),), (markers_of(prepared),))


def fence(transactions: Transactions, known: Transaction, now_ms: int) -> Outcome:
    """Abort an open transaction that its client has not ended, and fence the client by one higher
    epoch (KAFKA-19367: not two). The outcome has no answer."""
    version = transactions.services.transaction_version
    next_id = NO_ID
    if version >= BUMPS_SINCE and known.is_exhausted:
        # A client of version 2 may continue with the epoch that follows, and must not get the last
        # one of its id.
        next_id = transactions.services.new_producer_id()
    prepared = known.moved(
        TransactionStatus.PREPARE_ABORT,
        transactions.services.wall_ms(now_ms),
        producer_epoch=min(known.producer_epoch + 1, EPOCH_MAX),
        last_epoch=NO_EPOCH,
        next_producer_id=next_id,
        client_version=version,
    )
    return transactions.stored(prepared, (), (markers_of(prepared),))


def markers_of(ending: Transaction) -> WriteMarkers:
    """Return the effect that ends this transaction in its partitions."""
    return WriteMarkers(
        ending.transactional_id,
        ending.producer_id,
        ending.producer_epoch,
        ending.state is TransactionStatus.PREPARE_COMMIT,
        ending.partitions,
        ending.client_version,
    )


def on_markers_written(
    transactions: Transactions,
    effect: WriteMarkers,
    written: Partitions,
    refused: Ticket,
    now_ms: int,
) -> Outcome:
    """Note partitions that have the marker of `effect`. The last one completes the transaction. If
    the log refuses that record, `refused` gets the error, and the report must be repeated. It gets
    no other answer. A report about another transaction than the present one does nothing."""
    known = transactions.get(effect.transactional_id)
    if (
        known is None
        or not known.is_ending
        or (known.producer_id, known.producer_epoch) != (effect.producer_id, effect.producer_epoch)
    ):
        return NOTHING
    if transactions.without_markers(known, written):
        return NOTHING
    completed = transactions.stored(known.completed(transactions.services.wall_ms(now_ms)))
    return completed._replace(on_failure=lambda error, failed_ms: answered(refused, error))


def _answer(ended: Transaction) -> EndTxnResponse:
    producer_id, epoch = ended.identity_after_end()
    return EndTxnResponse(
        error_code=ErrorCode.NONE,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
