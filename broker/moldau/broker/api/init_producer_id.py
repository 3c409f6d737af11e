"""InitProducerId: give an idempotent producer its id.

A transactional id needs a transaction coordinator, and this node has none. Such a request gets an
error that ends the producer at once (`transactions`).
"""

from __future__ import annotations

from typing import cast

from moldau.broker.api.node import Node
from moldau.broker.api.request import ApiRequest
from moldau.broker.api.transactions import no_transactions
from moldau.broker.settings import transaction
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_NONE = -1
_FIRST_EPOCH = 0


def serve(node: Node, request: ApiRequest) -> None:
    """Answer with a new id and the first epoch. A previous id in the request is ignored."""
    message = cast(InitProducerIdRequest, request.decode())
    try:
        _check(node, message)
    except KafkaError as error:
        request.answer(_refusal(error))
        return

    def on_id(found: int | KafkaError) -> None:
        if isinstance(found, KafkaError):
            request.answer(_refusal(found))
            return
        request.answer(
            InitProducerIdResponse(
                error_code=ErrorCode.NONE,
                producer_id=found,
                producer_epoch=_FIRST_EPOCH,
            )
        )

    node.producer_ids.take(on_id)


def _check(node: Node, message: InitProducerIdRequest) -> None:
    if (message.producer_id == _NONE) != (message.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an id goes with an epoch")
    if message.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    if message.transactional_id is not None:
        longest_ms = node.settings[transaction.transaction_max_timeout_ms]
        if not 0 < message.transaction_timeout_ms <= longest_ms:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                timeout_ms=message.transaction_timeout_ms,
                longest_ms=longest_ms,
            )
        raise no_transactions()


def _refusal(error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=_NONE, producer_epoch=_NONE)
