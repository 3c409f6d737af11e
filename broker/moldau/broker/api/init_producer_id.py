"""InitProducerId: give an idempotent producer its id, or a transactional one its next epoch.

An id without a transactional id comes from this node's block. With a transactional id, its
coordinator decides; a previous producer in the request is then checked there (KIP-360).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.gate import is_allowed
from moldau.broker.api.node import Node
from moldau.broker.api.request import ApiRequest
from moldau.broker.api.transactions import code_for
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.transaction.producers import check_timeout, init_producer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.parked import OnAnswer
    from moldau.protocol.declare import Response

_NONE: Final = -1
_FIRST_EPOCH: Final = 0
_FENCED_SINCE: Final = 4


def serve(node: Node, request: ApiRequest) -> None:
    """Answer with a producer id and an epoch."""
    message = cast(InitProducerIdRequest, request.decode())
    try:
        _check(node, request, message)
    except KafkaError as error:
        request.answer(_refusal(error.code))
        return
    if message.transactional_id is not None:
        _init_transactional(node, request, message)
        return

    def on_id(found: int | KafkaError) -> None:
        if isinstance(found, KafkaError):
            request.answer(_refusal(found.code))
            return
        request.answer(
            InitProducerIdResponse(
                error_code=ErrorCode.NONE,
                producer_id=found,
                producer_epoch=_FIRST_EPOCH,
            )
        )

    node.producer_ids.take(on_id)


def _init_transactional(node: Node, request: ApiRequest, message: InitProducerIdRequest) -> None:
    version, transactional_id = request.arrival.version, message.transactional_id
    assert transactional_id is not None

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = _refusal(code_for(response, version, _FENCED_SINCE))
        request.answer(response)

    def decide(on_answer: OnAnswer) -> None:
        node.coordinators.of(KeyType.TRANSACTION).submit(
            transactional_id,
            lambda shard, now_ms: init_producer(shard, message, on_answer, now_ms),
            on_answer,
            "InitProducerId",
        )

    def on_ready(error: KafkaError | None) -> None:
        if error is not None:
            answer(error)
            return
        decide(answer)

    def first_answer(response: Response | KafkaError) -> None:
        if _lacks_id(response):
            node.producer_ids.ensure(on_ready)
        else:
            answer(response)

    decide(first_answer)


def _lacks_id(response: Response | KafkaError) -> bool:
    """Whether a new producer id may have been needed, and was not there. Most requests need none,
    and wait for none."""
    return (
        isinstance(response, KafkaError) and response.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )


def _check(node: Node, request: ApiRequest, message: InitProducerIdRequest) -> None:
    if (message.producer_id == _NONE) != (message.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an id goes with an epoch")
    transactional_id = message.transactional_id
    if transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    if transactional_id is not None and not is_allowed(
        node, request, AclResource.TRANSACTIONAL_ID, transactional_id
    ):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if transactional_id is not None:
        check_timeout(message.transaction_timeout_ms, node.settings)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
