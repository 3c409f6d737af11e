"""InitProducerId with a transactional id: the producer of a new instance, or of one that continues
after an error (KIP-360).

A new instance sends no producer. It fences the instances before it. An instance that continues
sends the producer that it has, and is fenced itself if another one has begun since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.coordinator.outcome import Outcome, Ticket
from moldau.broker.coordinator.transaction.ending import fence
from moldau.broker.coordinator.transaction.state import (
    NO_EPOCH,
    NO_ID,
    NO_PARTITIONS,
    NO_TIME,
    Transaction,
    TransactionStatus,
    is_exhausted,
)
from moldau.broker.settings import transaction as settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from moldau.broker.coordinator.transaction.transactions import Transactions
    from moldau.config import Settings
    from moldau.protocol.messages.init_producer_id import InitProducerIdRequest


class Producer(NamedTuple):
    """A producer id and its epoch."""

    id: int
    epoch: int


def init_producer(
    transactions: Transactions, message: InitProducerIdRequest, ticket: Ticket, now_ms: int
) -> Outcome:
    """Decide about InitProducerId with a transactional id."""
    transactional_id = message.transactional_id
    assert transactional_id
    services = transactions.services
    timeout_ms = message.transaction_timeout_ms
    check_timeout(timeout_ms, services.settings)
    expected = None
    if message.producer_id != NO_ID:
        expected = Producer(message.producer_id, message.producer_epoch)
    known = transactions.get(transactional_id)
    if known is None:
        begun = Transaction(
            transactional_id,
            services.new_producer_id(),
            0,
            timeout_ms,
            updated_ms=services.wall_ms(now_ms),
        )
        return transactions.stored(begun, ((ticket, _answer(begun)),))
    known.check_settled()
    if expected is not None and not _may_be_of(known, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if known.state is TransactionStatus.ONGOING:
        _check_current(known, expected)
        refusal = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        # The client tries again, and gets an epoch of its own when the abort is complete.
        return fence(transactions, known, now_ms)._replace(answers=((ticket, refusal),))
    renewed = _renewed(transactions, known, expected, timeout_ms, now_ms)
    return transactions.stored(renewed, ((ticket, _answer(renewed)),))


def check_timeout(timeout_ms: int, now: Settings) -> None:
    """Raise KafkaError unless a transaction may be open for this long."""
    longest_ms = now[settings.transaction_max_timeout_ms]
    if not 0 < timeout_ms <= longest_ms:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT, timeout_ms=timeout_ms, longest_ms=longest_ms
        )


def _may_be_of(known: Transaction, expected: Producer) -> bool:
    """Whether the client's producer can be this one. Its epoch is checked afterwards."""
    return expected.id == known.producer_id or (
        expected.id == known.previous_producer_id and is_exhausted(expected.epoch)
    )


def _check_current(known: Transaction, expected: Producer | None) -> None:
    """Fence an older instance that would abort the transaction of a newer one. Kafka lets it, and
    fences it at its next attempt."""
    if expected is None or expected.epoch in (known.producer_epoch, known.last_epoch):
        return
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _renewed(
    transactions: Transactions,
    known: Transaction,
    expected: Producer | None,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    """Return the transactional id with the next epoch of its producer, or with another producer."""
    wall_ms = transactions.services.wall_ms(now_ms)
    producer_id, epoch = known.producer_id, known.producer_epoch
    if expected is not None and expected.epoch != epoch:
        if expected.epoch != known.last_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        last_epoch = known.last_epoch  # a repeated request: it has been carried out
    else:
        last_epoch = NO_EPOCH if expected is None else epoch
        if known.is_exhausted:
            producer_id, epoch = transactions.services.new_producer_id(), 0
        else:
            epoch += 1
    return known.moved(
        TransactionStatus.EMPTY,
        wall_ms,
        partitions=NO_PARTITIONS,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        started_ms=NO_TIME,
        timeout_ms=timeout_ms,
    )


def _answer(begun: Transaction) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
    )
