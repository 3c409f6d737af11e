"""Quotas of clients are set, described, removed, and hold a producer and a consumer back."""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages import alter_client_quotas as altering
from moldau.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from moldau.protocol.messages.fetch import FetchResponse
from moldau.protocol.messages.produce import ProduceResponse
from tests.broker.api.administered import Administered
from tests.broker.api.requests import batch, fetch, produce, want
from tests.broker.api.serving import Sent, Serving, limit, serving


def changing(
    entity: dict[str, str | None], *ops: tuple[str, float, bool], validate_only: bool = False
) -> altering.AlterClientQuotasRequest:
    entry = altering.AlterClientQuotasRequestEntryData(
        entity=[
            altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ],
        ops=[altering.OpData(key=key, value=value, remove=gone) for key, value, gone in ops],
    )
    return altering.AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)


def changed(administered: Administered, request: altering.AlterClientQuotasRequest) -> int:
    (result,) = administered.ask(request, altering.AlterClientQuotasResponse).entries
    administered.cluster.check_fold()
    return result.error_code


@pytest.mark.parametrize("version", range(2))
def test_quotas_are_set_described_and_removed(version: int) -> None:
    administered = Administered(1)

    def described(match_type: int, match: str | None) -> list[tuple[str | None, float]]:
        component = ComponentData(entity_type="user", match_type=match_type, match=match)
        request = DescribeClientQuotasRequest(components=[component], strict=True)
        response = administered.ask(request, DescribeClientQuotasResponse, version)
        return [
            (each.entity[0].entity_name, each.values[0].value) for each in response.entries or ()
        ]

    for name, value in (("alice", 7.0), (None, 9.0)):
        request = changing({"user": name}, ("producer_byte_rate", value, False))
        assert changed(administered, request) == 0
    assert described(0, "alice") == [("alice", 7.0)]
    assert described(1, None) == [(None, 9.0)]
    assert len(described(2, None)) == 2
    only_checked = changing(
        {"user": "alice"}, ("producer_byte_rate", 8.0, False), validate_only=True
    )
    assert changed(administered, only_checked) == 0
    assert described(0, "alice") == [("alice", 7.0)]
    assert changed(administered, changing({"user": "alice"}, ("producer_byte_rate", 0, True))) == 0
    assert described(0, "alice") == []


@pytest.mark.parametrize(
    ("entity", "key", "value", "code"),
    [
        ({}, "producer_byte_rate", 1, ErrorCode.INVALID_REQUEST),
        ({"user": ""}, "producer_byte_rate", 1, ErrorCode.INVALID_REQUEST),
        ({"topic": "t"}, "producer_byte_rate", 1, ErrorCode.INVALID_REQUEST),
        ({"ip": "1.2.3.4", "user": "u"}, "connection_creation_rate", 1, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "sing", 1, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "connection_creation_rate", 1, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "producer_byte_rate", 0, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "producer_byte_rate", float("nan"), ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "producer_byte_rate", 1.5, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "producer_byte_rate", 1e300, ErrorCode.INVALID_REQUEST),
        ({"ip": "1.2.3.4"}, "connection_creation_rate", 1.5, ErrorCode.INVALID_REQUEST),
        ({"ip": "1.2.3.4"}, "connection_creation_rate", 2**32, ErrorCode.INVALID_REQUEST),
        ({"ip": "1.2.3"}, "connection_creation_rate", 1, ErrorCode.INVALID_REQUEST),
        ({"ip": "1.2.3.4"}, "request_percentage", 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_quota_that_cannot_be_is_refused(
    entity: dict[str, str | None], key: str, value: float, code: ErrorCode
) -> None:
    administered = Administered(1)
    assert changed(administered, changing(entity, (key, value, False))) == code
    assert administered.cluster.image.client_quotas.by_entity == {}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ({"user": "u"}, "request_percentage", 12.5),
        ({"client-id": None}, "controller_mutation_rate", 0.5),
        ({"ip": "1.2.3.4"}, "connection_creation_rate", 5),
        ({"ip": None}, "connection_creation_rate", 5),
        ({"ip": "::1"}, "connection_creation_rate", 5),
    ],
)
def test_quotas_of_time_changes_and_connections_are_kept(
    entity: dict[str, str | None], key: str, value: float
) -> None:
    administered = Administered(1)
    assert changed(administered, changing(entity, (key, value, False))) == 0
    assert list(administered.cluster.image.client_quotas.by_entity.values()) == [{key: value}]


@serving()
async def test_a_producer_beyond_its_quota_is_answered_and_waits(at: Serving) -> None:
    at.create("t")
    sent = at.send(produce("t", batch(size=5000)), 9)
    assert at.service.throttle(sent, None) == 0, "no quota, no wait"
    limit(at, "producer_byte_rate", 1000)
    first, second = (at.send(produce("t", batch(size=8000)), 9) for _ in range(2))
    for each in (first, second):
        (response,) = each.answers
        assert isinstance(response, ProduceResponse)
        assert response.responses[0].partition_responses[0].error_code == 0
    assert at.service.throttle(first, None) == 0, "within the window"
    assert 5000 < at.service.throttle(second, None) < 9000
    assert at.service.throttle(second, None) == 0, "a wait is taken once"


@serving()
async def test_a_fetch_beyond_its_quota_is_answered_without_records(at: Serving) -> None:
    at.create("t")
    for _ in range(3):
        await at.ask(produce("t", batch(size=8000)), ProduceResponse, 9)
    limit(at, "consumer_byte_rate", 1000)
    first = at.send(fetch(("t", want(partition_max_bytes=9000))), 12)
    (response,) = first.answers
    assert isinstance(response, FetchResponse)
    assert len(response.responses[0].partitions[0].records or b"") > 8000
    assert at.service.throttle(first, None) == 0
    second = at.send(fetch(("t", want(offset=1, partition_max_bytes=9000))), 12)
    (held,) = second.answers
    assert isinstance(held, FetchResponse)
    assert held.responses == []
    assert at.service.throttle(second, None) > 1000


@serving()
async def test_a_client_waits_for_the_time_that_its_requests_take(at: Serving) -> None:
    at.create("t")
    limit(at, "request_percentage", 10.0)

    def worked(request: Sent, ns: int) -> int:
        at.node.quotas.begin(request)
        at.node.quotas._began_ns -= ns
        return at.service.throttle(request, None)

    request = at.send(produce("t", batch()), 9)
    assert worked(request, 900_000_000) == 0, "9 % of ten seconds"
    assert worked(request, 900_000_000) == 1000, "at most one window"
    at.node.quotas.begin(request)
    at.node.quotas.exempt()
    assert at.service.throttle(request, None) == 0, "of another broker"
