"""Whose request a controller decides, when a broker on another node passed it on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from moldau.broker.controller.controller import Controller
from moldau.broker.decision.context import ANONYMOUS, RequestContext
from moldau.protocol.declare import Request
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.runtime import Runtime
from moldau.testing.simulated_cluster import PORT
from tests.broker.cluster.world import SimulatedBrokers, new_world
from tests.broker.server.wire import wired

Decided = list[tuple[Request, RequestContext]]


@contextmanager
def decisions() -> Iterator[Decided]:
    """What controllers decide, and in which context."""
    decided: Decided = []
    decide = Controller.on_request

    def noting(at: Controller, request: Request, context: RequestContext, inputs: Any) -> Any:
        decided.append((request, context))
        return decide(at, request, context, inputs)

    with patch.object(Controller, "on_request", noting):
        yield decided


def contexts_of(decided: Decided) -> dict[str, RequestContext]:
    """The contexts of CreateTopics, by the first topic."""
    return {
        request.topics[0].name: context
        for request, context in decided
        if isinstance(request, CreateTopicsRequest)
    }


def test_a_forwarded_request_is_decided_in_the_context_of_its_client() -> None:
    """The broker keeps no controller, so all that it asks goes over the wire."""
    done: list[bool] = []

    async def client(runtime: Runtime) -> None:
        async with wired(runtime, "b1", PORT) as wire:
            assert await wire.create("asked") == 0
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name="auto")])
            await wire.ask(wanted, MetadataResponse)
            await wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)
        done.append(True)

    with new_world(1) as world, decisions() as decided:
        brokers = SimulatedBrokers(world, 1, controllers=1)
        brokers.await_up()
        world.add_node("client", client)
        host = f"/{world.network.hosts['client'].address}"
        world.run_until(lambda: bool(done) and len(contexts_of(decided)) == 3, within=60)
        beats = {each for request, each in decided if isinstance(request, BrokerHeartbeatRequest)}

    contexts = contexts_of(decided)
    for name in ("asked", "auto"):
        context = contexts[name]
        assert (context.client_id, context.client_host) == ("tester", host)
        assert (context.principal, context.listener) == (ANONYMOUS, "CONTROLLER")
        assert context.deadline_ms is not None
    own = contexts["__consumer_offsets"]
    assert (own.client_id, str(own.principal)) == ("1", "Node:1")
    assert {each.deadline_ms for each in beats} == {None}
