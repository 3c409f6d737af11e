"""The context of a request in a whole broker: which requests make one, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from moldau.broker.controller.controller import Controller
from moldau.broker.decision.context import ANONYMOUS, RequestContext
from moldau.broker.server.standalone import CLIENTS
from moldau.errors.codes import ErrorCode
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.runtime import Runtime
from tests.broker.server.houses import house
from tests.runtime.arena import HOST, play


@contextmanager
def constructions() -> Iterator[list[RequestContext]]:
    """The contexts that are made for requests that came through a listener."""
    made: list[RequestContext] = []
    make = RequestContext.__new__

    def noting(cls: type[RequestContext], *values: Any, **named: Any) -> RequestContext:
        context = make(cls, *values, **named)
        if context.listener:
            made.append(context)
        return context

    with patch.object(RequestContext, "__new__", noting):
        yield made


def test_a_produce_and_a_fetch_make_no_context() -> None:
    """Each object that a request makes is paid for by every record."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (_, wire):
            with constructions() as made:
                assert await wire.create("orders") == ErrorCode.NONE
                assert len(made) == 1
                for acks in (1, -1):
                    written = await wire.produce("orders", [b"a", b"b"], acks=acks)
                    assert written.error_code == ErrorCode.NONE
                assert await wire.fetch_all("orders") == [b"a", b"b"] * 2
                await wire.metadata("orders")
                assert len(made) == 1
                assert await wire.create("more") == ErrorCode.NONE
                assert len(made) == 1, "the connection keeps the one that it has"

    play("simulated", scenario)


@pytest.mark.parametrize("client_id", ["app", "", None])
def test_the_controller_on_this_node_gets_the_context_of_the_connection(
    client_id: str | None,
) -> None:
    decided: list[tuple[Request, RequestContext]] = []
    decide = Controller.on_request

    def noting(at: Controller, request: Request, context: RequestContext, inputs: Any) -> Any:
        decided.append((request, context))
        return decide(at, request, context, inputs)

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (_, wire):
            wire.protocol = ClientConnection(client_id)
            with patch.object(Controller, "on_request", noting):
                before_ms = runtime.clock.monotonic_ns() // 1_000_000
                assert await wire.create("orders") == ErrorCode.NONE
            (context,) = (each for of, each in decided if isinstance(of, CreateTopicsRequest))
            assert context.deadline_ms is not None
            assert 30_000 <= context.deadline_ms - before_ms < 31_000
            last = CreateTopicsRequest.spec.stable_versions.last
            assert context._replace(deadline_ms=None) == RequestContext(
                client_id or "", f"/{HOST}", last, CLIENTS, ANONYMOUS
            )

    play("simulated", scenario)
