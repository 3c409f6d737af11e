"""A bug in the service ends the connection that met it, and nothing else.

On real loops only: in a simulation a bug ends the world, as it should.
"""

from __future__ import annotations

import asyncio

import pytest

from moldau.broker.network import NetworkOptions, Request
from moldau.runtime import Runtime
from tests.broker.network.arena import ScriptedService, answer, answer_to, ask, echo, serving
from tests.broker.network.wire import stream, wired
from tests.runtime.arena import REAL_ARENAS, play


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_a_bug_of_the_service_ends_its_connection_and_no_other(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context.get("exception")))

        def serve(request: Request) -> None:
            if answer_to(request).cluster_id == "bug":
                raise ZeroDivisionError
            echo(request)

        service = ScriptedService(serve)
        async with serving(runtime, service) as server:
            unlucky, other = await server.connect(), await server.connect()
            unlucky.send(ask("bug"))
            assert await unlucky.is_closed()
            other.send(ask("fine"))
            assert await other.text() == "fine"
            assert [type(error) for error in reported] == [ZeroDivisionError]

    play(arena, scenario)


def test_a_bug_met_in_the_turn_of_one_connection_does_not_cost_the_others_theirs() -> None:
    async def scenario(runtime: Runtime) -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context.get("exception")))

        def serve(request: Request) -> None:
            if answer_to(request).cluster_id == "bug":
                raise ZeroDivisionError

        service = ScriptedService(serve)
        for connect in wired(runtime, service, NetworkOptions(in_flight_max=1)):
            unlucky, other = connect(), connect()
            unlucky.receive(stream("first", "bug"))
            other.receive(stream("first", "second"))
            assert len(service.requests) == 2
            for request in tuple(service.requests):
                request.answer(answer("done"))
            await service.until(lambda: len(service.requests) == 4)

            assert service.requests[-1].connection is other.protocol
            assert [type(error) for error in reported] == [ZeroDivisionError]
            assert unlucky.is_aborted
            assert not other.is_aborted

    play("asyncio", scenario)
