"""The three kinds of errors of a transaction: try the same call again, abort, or begin anew with
another producer. The text of each says which call that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client.producer.refusal import OF_CONTENT
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError


class TransactionError(KafkaError):
    """An error of a transactional producer: one of the three kinds below."""

    @property
    def is_fenced(self) -> bool:
        """Whether another producer has begun with the same id, or the cluster has ended the
        transaction, as a rule because it took too long."""
        return self.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class RetriableTransactionError(TransactionError):
    """Nothing is decided yet: make the same call again."""

    @property
    def retriable(self) -> bool:
        return True


class AbortableTransactionError(TransactionError):
    """The transaction cannot be committed: abort it, and do its work again in the next one."""

    @property
    def may_pass(self) -> bool:
        """Whether the next transaction may succeed with the same records."""
        return self.code not in _NEVER_PASSES

    @property
    def retriable(self) -> bool:
        return False


class FatalTransactionError(TransactionError):
    """The producer is of no more use: close it."""

    @property
    def retriable(self) -> bool:
        return False


_NEVER_PASSES: Final = OF_CONTENT | frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
_FATAL: Final = frozenset(
    (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    )
)
_ABORT: Final = (
    "the transaction cannot be committed. Call abort_transaction, then do its work again in the "
    "next transaction"
)
_ABORT_FOR_GOOD: Final = (
    "the transaction cannot be committed. Call abort_transaction. The same work would fail again "
    "until the cause is removed"
)
_ENDED: Final = (
    "the cluster has ended the transaction, as a rule because it took longer than "
    "transaction.timeout.ms: nothing of it counts"
)
_ENDED_ABORT: Final = (
    f"{_ENDED}. Call abort_transaction, then do its work again in the next transaction, in less "
    "time or with a longer timeout"
)
_FENCED: Final = (
    "this producer is fenced: another one has started with its transactional.id, or a transaction "
    "took longer than transaction.timeout.ms and the cluster has aborted it. Close this producer. "
    "If no other one is meant to run, start a new one and do the work again"
)
_CLOSE: Final = "the producer cannot go on: close it"
_REASONS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.PRODUCER_FENCED: _FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: _FENCED,
    ErrorCode.INVALID_TXN_STATE: f"{_ENDED}. Close this producer, start a new one and do the work "
    "again, in less time or with a longer timeout",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction.timeout.ms is larger than the brokers' "
    "transaction.max.timeout.ms: make it smaller",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user may not use this transactional.id: "
    "it needs an ACL for Write on the transactional id",
    ErrorCode.UNSUPPORTED_VERSION: "the brokers do not support transactions",
}
_GROUP_REASON: Final = (
    "the offsets belong to a member that is not in its group any more: the group has rebalanced. "
    "Call abort_transaction, and go on with what the consumer is assigned now"
)
_TOPIC_IS_GONE: Final = (
    "a topic of the transaction was deleted, and maybe made again: the offsets of the old one have "
    "no meaning for the new one. Call abort_transaction, and go on with what is there now"
)
_OF_GROUP: Final = frozenset(
    (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
)


_ABORT_REASONS: Final[Mapping[ErrorCode, str]] = {
    **dict.fromkeys(_NEVER_PASSES, _ABORT_FOR_GOOD),
    **dict.fromkeys(_OF_GROUP, _GROUP_REASON),
    ErrorCode.INVALID_PRODUCER_EPOCH: _ENDED_ABORT,
    ErrorCode.INVALID_TXN_STATE: _ENDED_ABORT,
    ErrorCode.UNKNOWN_TOPIC_ID: _TOPIC_IS_GONE,
}


def is_fatal(code: ErrorCode) -> bool:
    """Whether no abort heals the error, wherever it comes from."""
    return code in _FATAL


def of_kind(error: KafkaError, *, is_final: bool = False) -> TransactionError:
    """Return an error of a record or request as the one that says what to do with its transaction.
    `is_final`: an abort is not possible any more."""
    if isinstance(error, TransactionError):
        return error
    return fatal(error) if is_final or is_fatal(error.code) else abortable(error)


def abortable(error: KafkaError) -> AbortableTransactionError:
    """Return the error that says to abort the transaction because of this one."""
    reason = _ABORT_REASONS.get(error.code, _ABORT)
    made = AbortableTransactionError(error.code, reason, why=error.reason, **error.context)
    made.__cause__ = without_frames(error)
    return made


def dropped(transactional_id: str) -> AbortableTransactionError:
    """Return the error of records that were not delivered before their transaction was aborted."""
    return AbortableTransactionError(
        ErrorCode.TRANSACTION_ABORTABLE,
        "the transaction was aborted before this was delivered",
        transactional_id=transactional_id,
    )


def fatal(error: KafkaError) -> FatalTransactionError:
    """Return the error that says to close the producer because of this one."""
    reason = _REASONS.get(error.code, _CLOSE)
    context = {"why": error.reason, **error.context}
    made = FatalTransactionError(error.code, reason, **context)
    made.__cause__ = without_frames(error)
    return made
