"""Transactions, which this broker does not have: each request is refused, and for good.

A retriable error would let a transactional producer ask for one to two minutes before it gives up.
The codes are those that end it at once, in Java's client as in librdkafka, which takes only
TRANSACTIONAL_ID_AUTHORIZATION_FAILED for fatal.
"""

from __future__ import annotations

from typing import Final

from moldau.errors.codes import ErrorCode, KafkaError

TEXT: Final = (
    "this broker has no transactions yet: remove transactional.id from the producer "
    "(an idempotent producer works), or use a cluster that has them"
)


def no_transactions(*, can_tell: bool = False) -> KafkaError:
    """Return the error of a request of a transaction. `can_tell`: its client ends with every error
    that it does not retry, and shows the text of those that it does not know."""
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION if can_tell else code, TEXT)
