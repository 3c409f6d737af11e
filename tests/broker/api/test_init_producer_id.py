"""InitProducerId: ids are given once, from blocks of the controller."""

from __future__ import annotations

from typing import Any

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.broker.api.serving import Sent, Serving, serving

BLOCK = 1000


def request(**more: Any) -> InitProducerIdRequest:
    fields: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 1000, **more}
    return InitProducerIdRequest(**fields)


def answer(sent: Sent) -> InitProducerIdResponse:
    (response,) = sent.answers
    assert isinstance(response, InitProducerIdResponse)
    return response


@serving()
async def test_every_version_gives_a_fresh_id_of_epoch_0(at: Serving) -> None:
    given = [answer(at.send(request(), version)) for version in range(6)]
    assert [(each.error_code, each.producer_epoch) for each in given] == [(0, 0)] * 6
    assert len({each.producer_id for each in given}) == 6


@serving()
async def test_ids_go_on_over_blocks_without_a_gap_and_nobody_waits(at: Serving) -> None:
    given = [answer(at.send(request())).producer_id for _ in range(3 * BLOCK)]
    assert given == list(range(3 * BLOCK))
    assert len(at.channel.asked) == 4, "the next block is asked for before this one is empty"


@serving()
async def test_who_comes_before_there_is_a_block_waits_for_it(at: Serving) -> None:
    at.channel.is_slow = True
    waiting = [at.send(request()) for _ in range(3)]
    assert not any(each.answers for each in waiting)
    assert len(at.channel.asked) == 1
    at.channel.answer_late()
    assert [answer(each).producer_id for each in waiting] == [0, 1, 2]


@serving()
async def test_more_may_wait_than_a_block_has(at: Serving) -> None:
    at.channel.is_slow = True
    waiting = [at.send(request()) for _ in range(2 * BLOCK + 5)]
    at.channel.answer_late()
    assert [answer(each).producer_id for each in waiting] == list(range(2 * BLOCK + 5))


@serving()
async def test_without_a_controller_a_client_is_told_to_ask_again(at: Serving) -> None:
    at.channel.refusals.append(KafkaError(ErrorCode.NOT_CONTROLLER))
    refused = answer(at.send(request()))
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
    assert answer(at.send(request())).producer_id == 0


@serving()
async def test_a_broker_whose_registration_is_old_gets_no_ids(at: Serving) -> None:
    at.node.broker_epoch = -5
    refused = answer(at.send(request()))
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert isinstance(at.channel.asked[0], AllocateProducerIdsRequest)
    assert any("STALE_BROKER_EPOCH" in line for line in at.lines)


@serving(transaction__max__timeout__ms="5000")
async def test_what_is_refused(at: Serving) -> None:
    cases: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5, "producer_epoch": 1}, ErrorCode.NONE),
        ({"transaction_timeout_ms": -1}, ErrorCode.NONE),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        (
            {"transactional_id": "x", "transaction_timeout_ms": 0},
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ),
        (
            {"transactional_id": "x", "transaction_timeout_ms": 5001},
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ),
        (
            {"transactional_id": "x", "transaction_timeout_ms": 5000},
            ErrorCode.NOT_COORDINATOR,
        ),
    ]
    for fields, code in cases:
        found = answer(at.send(request(**fields)))
        assert found.error_code == code, fields
        assert (found.producer_id >= 0) == (code == ErrorCode.NONE)
