"""The envelope around a client's request to the controller, and the context that comes out of it
(tests/conformance/test_java_mixed_cluster.py has the real controller of Apache Kafka)."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.broker.api.request import ApiRequest
from moldau.broker.controller.image import Image
from moldau.broker.decision.authorizer import ALLOW_ALL, Authorizer
from moldau.broker.decision.context import ANONYMOUS, Principal, RequestContext, of_node
from moldau.broker.server.controller_service import ControllerService
from moldau.broker.server.envelope import ForwardedRequest
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Loggers
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from moldau.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.rights import Right
from tests import oracle
from tests.protocol.oracle import second_codec

ALICE = Principal("User", "alice", is_token_authenticated=True)
CLIENT = RequestContext("app", "/10.0.0.7", 7, "PLAINTEXT", ALICE)
BROKER = RequestContext("2", "/10.0.0.2", 0, "CONTROLLER", Principal("User", "broker"))
CREATE = CreateTopicsRequest(topics=[], timeout_ms=1000)
NOW_MS = 5000
ANSWERS: dict[type[Request], Response] = {
    CreateTopicsRequest: CreateTopicsResponse(throttle_time_ms=0, topics=[]),
    IncrementalAlterConfigsRequest: IncrementalAlterConfigsResponse(
        throttle_time_ms=0, responses=[]
    ),
}


class Came:
    """A request that came to the controller's listener from a broker."""

    def __init__(self, envelope: EnvelopeRequest, *, is_checked: bool) -> None:
        self._is_checked = is_checked
        self.arrival = SimpleNamespace(key=58, version=0, client_id="2")
        self.connection = SimpleNamespace(listener="CONTROLLER", session=None)
        self.answers: list[EnvelopeResponse] = []
        self._bytes = envelope.encode(0)

    @property
    def context(self) -> RequestContext:
        assert self._is_checked, "it is the broker's, not that of the original request"
        return BROKER

    def keep(self) -> None:
        """Nothing overwrites it."""

    def decode(self) -> Request:
        return EnvelopeRequest.decode(self._bytes, 0)

    def answer(self, response: Response) -> None:
        self.answers.append(EnvelopeResponse.decode(response.encode(0), 0))


class Active:
    """The active controller, as far as the service needs it: it notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Request, RequestContext]] = []

    def request(self, request: Request, context: RequestContext, on_answer: Any) -> None:
        self.asked.append((request, context))
        on_answer(ANSWERS[type(request)])


class BrokersOnly:
    """An authorizer that allows brokers what nodes do, and clients nothing."""

    allows_all = False
    uses_rules = False

    def allowed(self, context: RequestContext, right: Right, names: Collection[str]) -> list[str]:
        return list(names) if context.principal == BROKER.principal else []

    def allowed_on_some(self, context: RequestContext, right: Right) -> bool:
        return context.principal == BROKER.principal


def serve(
    envelope: EnvelopeRequest, authorizer: Authorizer = ALLOW_ALL
) -> tuple[Active, EnvelopeResponse]:
    """What the controller was asked, and what the broker was answered."""
    active, came = Active(), Came(envelope, is_checked=not authorizer.allows_all)
    controller = SimpleNamespace(
        active=active,
        authorizer=authorizer,
        image=Image,
        raft=None,
        now_ms=lambda: NOW_MS,
    )
    log = Loggers(cast(Any, SimpleNamespace(wall_ms=lambda: 0)), lambda line: None).get("t")
    nothing = cast(Any, None)
    service = ControllerService(cast(Any, controller), {}, nothing, nothing, log)
    service.serve(cast(ApiRequest, came))
    (answer,) = came.answers
    return active, answer


def test_an_envelope_has_a_principal_and_an_address() -> None:
    """Without them Kafka answers PRINCIPAL_DESERIALIZATION_FAILURE, and "addr is of illegal
    length"."""
    envelope = ForwardedRequest(CREATE, RequestContext("", "", 7, "PLAINTEXT")).envelope
    assert envelope.request_principal == b"\0\0\x05User\x0aANONYMOUS\0\0"
    assert len(envelope.client_host_address) in (4, 16)


def test_a_client_without_the_right_is_refused_inside_the_envelope() -> None:
    """An error of the envelope itself would say that the broker may not forward."""
    electing = ForwardedRequest(
        ElectLeadersRequest(topic_partitions=[], timeout_ms=1000), CLIENT._replace(version=2)
    )
    active, answer = serve(electing.envelope, BrokersOnly())
    assert active.asked == []
    assert answer.error_code == 0
    response = electing.opened(answer)
    assert isinstance(response, ElectLeadersResponse)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_only_what_brokers_forward_may_be_in_an_envelope() -> None:
    heartbeat = ForwardedRequest(
        BrokerHeartbeatRequest(
            broker_id=1,
            broker_epoch=1,
            current_metadata_offset=1,
            want_fence=False,
            want_shut_down=False,
        ),
        CLIENT._replace(version=0),
    )
    active, answer = serve(heartbeat.envelope)
    assert active.asked == []
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


@oracle.needs_schemas
def test_an_envelope_is_written_as_kafka_writes_it() -> None:
    envelope = ForwardedRequest(CREATE, CLIENT).envelope
    header = {
        "RequestApiKey": 19,
        "RequestApiVersion": 7,
        "CorrelationId": 0,
        "ClientId": "app",
    }
    body = {"Topics": [], "TimeoutMs": 1000, "ValidateOnly": False}
    principal = {"Type": "User", "Name": "alice", "TokenAuthenticated": True}
    request = encoded("RequestHeader", 2, header) + encoded("CreateTopicsRequest", 7, body)
    fields = {
        "RequestData": request,
        "RequestPrincipal": b"\0\0" + encoded("DefaultPrincipalData", 0, principal),
        "ClientHostAddress": bytes((10, 0, 0, 7)),
    }
    assert envelope.encode(0) == encoded("EnvelopeRequest", 0, fields)


def encoded(name: str, version: int, value: dict[str, Any]) -> bytes:
    """By the second codec, which walks Kafka's schema."""
    return second_codec.encode(oracle.message(name), version, value)


@pytest.mark.parametrize(
    "client",
    [
        CLIENT,
        CLIENT._replace(principal=ANONYMOUS, client_id=""),
        CLIENT._replace(client_host="/0:0:0:0:0:0:0:1"),
        CLIENT._replace(version=2),
        CLIENT._replace(principal=Principal("Group", "CN=a,O=b")),
    ],
)
def test_the_controller_decides_in_the_context_of_the_client(client: RequestContext) -> None:
    """The listener is the one that the envelope came through, as in Kafka."""
    active, answer = serve(ForwardedRequest(CREATE, client).envelope)
    assert answer.error_code == 0
    ((message, context),) = active.asked
    assert message == CREATE
    assert context._replace(deadline_ms=None) == client._replace(listener="CONTROLLER")


def test_the_timeout_of_the_message_counts_from_its_arrival() -> None:
    active, _ = serve(ForwardedRequest(CREATE, CLIENT.with_timeout(1000, 99)).envelope)
    ((_, context),) = active.asked
    assert context.deadline_ms == NOW_MS + 1000


def test_a_message_without_a_timeout_has_no_deadline() -> None:
    request = IncrementalAlterConfigsRequest(resources=[], validate_only=True)
    active, _ = serve(
        ForwardedRequest(request, CLIENT._replace(version=1).with_timeout(9, 9)).envelope
    )
    ((_, context),) = active.asked
    assert context.deadline_ms is None


def test_a_nodes_own_request_is_told_from_a_clients() -> None:
    active, _ = serve(ForwardedRequest(CREATE, of_node(2, 7)).envelope)
    ((_, context),) = active.asked
    assert (str(context.principal), context.client_id) == ("Node:2", "2")


@pytest.mark.parametrize(
    "data", [None, b"", b"\0", b"\0\1\1\1\0\0", b"\0\0\x05Us", b"\0\0\1\1\0\0\0"]
)
def test_a_principal_that_cannot_be_read_is_refused(data: bytes | None) -> None:
    envelope = ForwardedRequest(CREATE, CLIENT).envelope
    envelope.request_principal = data
    active, answer = serve(envelope)
    assert answer.error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    assert active.asked == []


@pytest.mark.parametrize("size", [0, 5, 17])
def test_an_address_of_another_length_is_refused(size: int) -> None:
    envelope = ForwardedRequest(CREATE, CLIENT).envelope
    envelope.client_host_address = bytes(size)
    active, answer = serve(envelope)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert active.asked == []


def test_the_response_comes_out_of_its_envelope() -> None:
    wrapped = ForwardedRequest(CREATE, CLIENT)
    _, answer = serve(wrapped.envelope)
    assert wrapped.opened(answer) == CreateTopicsResponse(throttle_time_ms=0, topics=[])
    failed = wrapped.opened(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
    assert isinstance(failed, KafkaError)
    assert failed.code is ErrorCode.INVALID_REQUEST
