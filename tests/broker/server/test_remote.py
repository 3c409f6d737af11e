"""The way to a controller on another node: what is sent, and what is not sent any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from moldau.broker.decision.context import RequestContext, of_node
from moldau.broker.server.outside import RemoteController
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Loggers
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.envelope import EnvelopeRequest
from moldau.runtime import Runtime
from tests.runtime.arena import play

CLIENT = RequestContext("app", "/10.0.0.7", 7, "PLAINTEXT")
CREATE = CreateTopicsRequest(topics=[], timeout_ms=1000)
BEAT = BrokerHeartbeatRequest(
    broker_id=1,
    broker_epoch=2,
    current_metadata_offset=3,
    want_fence=False,
    want_shut_down=False,
)
TIMEOUT_MS = 1000


class SlowPeers:
    """A peer that is connected after a while, and what it is sent."""

    def __init__(self, seconds: float) -> None:
        self.sent: list[Request] = []
        self._seconds = seconds
        self._is_connected = False

    def ready(self, node_id: int, lane: str) -> SlowPeers | None:
        return self if self._is_connected else None

    async def connection(self, node_id: int, lane: str) -> SlowPeers:
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[None] = loop.create_future()
        loop.call_later(self._seconds, connected.set_result, None)
        await connected
        self._is_connected = True
        return self

    def ask(self, request: Request, on_answer: Callable[[Response], None], **terms: Any) -> None:
        self.sent.append(request)


def submitted(
    request: Request, context: RequestContext, seconds: float
) -> tuple[list[Request], list[Response | KafkaError]]:
    """What goes over the wire and what is answered, when connecting takes so long."""
    peers = SlowPeers(seconds)
    answers: list[Response | KafkaError] = []

    async def scenario(runtime: Runtime) -> None:
        log = Loggers(runtime.clock, lambda line: None).get("test")
        remote = RemoteController(runtime, cast(Any, peers), log)
        limited = context.with_timeout(TIMEOUT_MS, runtime.clock.monotonic_ns() // 1_000_000)
        remote.submit(2, request, limited, answers.append)
        over = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(seconds + 1, over.set_result, None)
        await over

    play("simulated", scenario)
    return peers.sent, answers


def test_a_clients_request_is_sent_in_an_envelope() -> None:
    (sent,), answers = submitted(CREATE, CLIENT, 0.9)
    assert isinstance(sent, EnvelopeRequest)
    assert sent.client_host_address == bytes((10, 0, 0, 7))
    assert answers == []


def test_a_request_of_the_node_is_sent_as_it_is() -> None:
    assert submitted(BEAT, of_node(1, 0), 0.9) == ([BEAT], [])


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_a_request_whose_time_is_over_is_not_sent(seconds: float) -> None:
    """The controller would count its timeout anew, and decide what the client has given up."""
    sent, answers = submitted(CREATE, CLIENT, seconds)
    assert sent == []
    (refused,) = answers
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.REQUEST_TIMED_OUT
