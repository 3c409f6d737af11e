"""The service behind a listener: what it serves, and what a failing handler costs."""

from __future__ import annotations

import pytest

from moldau.broker.api.handlers import APIS
from moldau.broker.api.node import Node
from moldau.broker.api.refused import error_response
from moldau.broker.api.request import ApiRequest, Handler
from moldau.broker.api.row import Api
from moldau.broker.api.service import BrokerService, served_versions
from moldau.broker.network import Service
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import API, response_class
from moldau.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.versions import Versions
from tests.broker.api.serving import Sent, Serving, limit, serving


def serve_with(at: Serving, handler: Handler, sent: Sent) -> None:
    BrokerService(at.node, {sent.arrival.key: Api(handler)}).serve(sent)


def cluster_request(at: Serving) -> Sent:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    return Sent(request, 2, at.runtime, "PLAINTEXT")


def test_rows_are_sorted_and_what_has_none_is_not_served() -> None:
    assert list(APIS) == sorted(APIS)
    served = served_versions()
    assert set(served) == {key for key, row in APIS.items() if "broker" in row.listeners}
    assert served[0] == Versions(3, 13)
    assert served[1] == Versions(4, 18)
    assert served[22] == Versions(0, 5), "an unstable version is nobody's to ask for"


@serving()
async def test_the_network_can_use_it(at: Serving) -> None:
    service: Service = at.service
    assert service.served == served_versions()


@serving()
async def test_an_error_of_the_protocol_becomes_the_answer(at: Serving) -> None:
    def refuse(node: Node, request: ApiRequest) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "ask another")

    sent = cluster_request(at)
    serve_with(at, refuse, sent)
    (answer,) = sent.answers
    assert isinstance(answer, DescribeClusterResponse)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NOT_CONTROLLER, "ask another")
    assert at.lines == []


@serving()
async def test_a_bug_is_logged_once_and_answered_or_ends_the_connection(at: Serving) -> None:
    def fail(node: Node, request: ApiRequest) -> None:
        raise ZeroDivisionError

    sent = cluster_request(at)
    serve_with(at, fail, sent)
    assert sent.answers[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[attr-defined]
    (line,) = at.lines
    assert "DescribeCluster" in line
    assert "ZeroDivisionError" in line
    without_place = Sent(ListOffsetsRequest(replica_id=-1, topics=[]), 1, at.runtime, "PLAINTEXT")
    serve_with(at, fail, without_place)
    assert without_place.is_closed
    assert not without_place.answers


@serving()
async def test_a_malformed_message_is_the_networks_to_deal_with(at: Serving) -> None:
    sent = cluster_request(at)
    sent.bytes = memoryview(b"\xff" * 9)
    limit(at, "request_percentage", 10.0)
    with pytest.raises(MalformedMessage):
        at.service.serve(sent)
    assert at.node.quotas._served is None, "its time ends with it"


def test_every_api_with_a_place_for_an_error_can_tell_one() -> None:
    error = KafkaError(ErrorCode.NOT_CONTROLLER, "why")
    told = 0
    for key, entry in API.items():
        for version in response_class(key).spec.versions.all():
            response = error_response(key, version, error)
            if response is None:
                continue
            told += 1
            decoded = response_class(key).decode(response.encode(version), version)
            assert decoded.error_code == ErrorCode.NOT_CONTROLLER, entry  # type: ignore[attr-defined]
    assert told > 50
