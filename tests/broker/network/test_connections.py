"""A connection's life: order, pipelining, refusals, ends. On asyncio, uvloop and the simulator."""

from __future__ import annotations

from struct import pack

import pytest

from moldau.broker.network import ListenerOptions, NetworkOptions, Request
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.runtime import Runtime
from tests.broker.network.arena import (
    ScriptedService,
    answer,
    answer_to,
    ask,
    echo,
    refuse,
    serving,
)
from tests.runtime.arena import ARENAS, HOST, play

pytestmark = pytest.mark.parametrize("arena", ARENAS)


def test_pipelined_requests_are_answered_in_order_with_one_write(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service) as server:
            client = await server.connect()
            texts = [f"request-{number}" for number in range(500)]
            client.writer.write(client.frames(*texts))

            assert [await client.text() for _ in texts] == texts
            assert server.count("requests") == 500
            assert server.count("connections.active", "OUT") == 1
            assert service.connections[0].address == HOST

    play(arena, scenario)


def test_answers_given_in_any_order_leave_in_the_order_of_the_requests(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        parked: dict[str, Request] = {}

        def park(request: Request) -> None:
            parked[answer_to(request).cluster_id or ""] = request

        service = ScriptedService(park)
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("a", "b", "c", "d"))
            await service.until(lambda: len(parked) == 4)
            for name in "dbac":
                parked[name].answer(answer(name.upper()))

            assert [await client.text() for _ in range(4)] == ["A", "B", "C", "D"]

    play(arena, scenario)


def test_a_request_may_get_no_answer(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        def serve(request: Request) -> None:
            if answer_to(request).cluster_id == "quiet":
                request.answer_nothing()
            else:
                echo(request)

        service = ScriptedService(serve)
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.send(ask("quiet"), answered=False)
            client.send(ask("loud"))

            assert await client.text() == "loud"

    play(arena, scenario)


def test_a_request_that_waits_can_be_decoded_only_if_it_was_kept(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        def serve(request: Request) -> None:
            if len(service.requests) == 1:
                request.keep()

        service = ScriptedService(serve)
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("kept", "not kept"))
            await service.until(lambda: len(service.requests) == 2)
            kept, other = service.requests

            assert server.server.queued_request_bytes > 0
            with pytest.raises(AssertionError, match="not kept"):
                other.decode()
            echo(kept)
            assert server.server.queued_request_bytes == 0
            other.answer(answer("anyway"))
            assert [await client.text(), await client.text()] == ["kept", "anyway"]

    play(arena, scenario)


def test_api_versions_that_we_do_not_know_are_told_ours_and_the_connection_lives(
    arena: str,
) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with serving(runtime, ScriptedService()) as server:
            client = await server.connect()
            sent = bytearray(
                b"".join(
                    client.protocol.send(
                        ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4
                    )
                )
            )
            sent[6:8] = pack(">h", 99)
            client.writer.write(sent)
            response = await client.receive()

            assert isinstance(response, ApiVersionsResponse)
            assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [(each.api_key, each.max_version) for each in response.api_keys] == [(18, 4)]
            client.send(ask("still here"))
            assert await client.text() == "still here"

    play(arena, scenario)


@pytest.mark.parametrize(
    ("sent", "reason", "told"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "malformed", "frame too large"),
        (pack(">i", -1), "malformed", "negative frame size"),
        (pack(">i", 0), "malformed", "too short"),
        (pack(">ihhih", 10, 1000, 0, 7, -1), "unknown_api", "api=1000 "),
        (pack(">ihhih", 10, 1, 3, 7, -1), "unsupported_version", "api=Fetch "),
        (pack(">ihhih", 10, 3, 1, 7, 30000), "malformed", "client_id"),
    ],
)  # fmt: skip
def test_what_is_no_request_closes_the_connection_with_one_line_and_nobody_else(
    arena: str, sent: bytes, reason: str, told: str
) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with serving(runtime, ScriptedService()) as server:
            honest, garbage = await server.connect(), await server.connect()
            garbage.writer.write(garbage.frames("before") + sent + sent)

            assert await garbage.text() == "before"
            assert await garbage.is_closed()
            honest.send(ask("fine"))
            assert await honest.text() == "fine"
            lines = [line for line in server.lines if "closes connection" in line]
            assert len(lines) == 1
            assert told in lines[0]
            assert f"peer={HOST}:" in lines[0]
            assert server.count("connections.closed", "OUT", reason) == 1

    play(arena, scenario)


def test_a_body_that_cannot_be_decoded_closes_the_connection(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(refuse)
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("one", "two"))

            assert await client.is_closed()
            assert len(service.requests) == 1, "nothing is served behind it"
            assert server.count("connections.closed", "OUT", "malformed") == 1

    play(arena, scenario)


def test_a_frame_over_the_limit_is_refused_until_the_service_allows_it(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        small = ListenerOptions("OUT", HOST, 0, request_bytes_max=200)
        async with serving(runtime, service, None, small) as server:
            client = await server.connect()
            client.send(ask("x"))
            assert await client.text() == "x"
            service.connections[0].frames.max_bytes = 100_000
            client.send(ask("y" * 20_000))
            assert await client.text() == "y" * 20_000

            other = await server.connect()
            other.send(ask("y" * 200))
            assert await other.is_closed()

    play(arena, scenario)


def test_half_a_request_and_the_end_is_just_an_end(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("whole") + client.frames("h" * 1000)[:500])
            assert await client.text() == "whole"
            client.close()
            await service.until(lambda: len(service.lost) == 1)

            assert server.server.queued_request_bytes == 0
            assert server.count("connections.closed", "OUT", "peer") == 1

    play(arena, scenario)


def test_answers_to_who_is_gone_do_no_harm(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(Request.keep)
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("a", "b"))
            await service.until(lambda: len(service.requests) == 2)
            client.close()
            await service.until(lambda: len(service.lost) == 1)

            for request in service.requests:
                assert request.is_gone
                request.answer(answer("nobody"))

    play(arena, scenario)


def test_the_service_may_close_after_its_answer(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        def serve(request: Request) -> None:
            echo(request)
            request.connection.close()

        service = ScriptedService(serve)
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("last words", "never served"))

            assert await client.text() == "last words"
            assert await client.is_closed()
            assert len(service.requests) == 1

    play(arena, scenario)


def test_stopping_waits_for_requests_that_are_served_and_takes_no_new_ones(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(lambda request: None)
        async with serving(runtime, service) as server:
            waiting, idle = await server.connect(), await server.connect()
            waiting.writer.write(waiting.frames("served"))
            await service.until(
                lambda: len(service.requests) == 1 and len(service.connections) == 2
            )
            stopping = runtime.spawn(server.server.aclose(), name="stop")
            assert await idle.is_closed()
            assert not stopping.done()
            service.requests[0].answer(answer("in time"))

            assert await waiting.text() == "in time"
            assert await waiting.is_closed()
            await stopping
            with pytest.raises(ConnectionError):
                await server.connect()

    play(arena, scenario)


def test_stopping_cuts_off_what_does_not_end(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(lambda request: None)
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.send(ask("never answered"))
            await service.until(lambda: len(service.requests) == 1)
            await server.server.aclose(grace_seconds=0.01)

            assert await client.is_closed()
            assert server.count("connections.closed", "OUT", "stopped") == 1

    play(arena, scenario)


def test_more_requests_than_may_be_in_flight_wait_unserved(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(lambda request: None)
        async with serving(runtime, service, NetworkOptions(in_flight_max=3)) as server:
            client = await server.connect()
            texts = [f"{number}" for number in range(50)]
            client.writer.write(client.frames(*texts))
            for number in range(50):
                await service.until(lambda upto=number: len(service.requests) > upto)  # type: ignore[misc]
                assert len(service.requests) <= number + 3
                service.requests[number].answer(answer(texts[number]))

            assert [await client.text() for _ in texts] == texts
            assert server.count("pauses", "busy") >= 1

    play(arena, scenario)


def test_the_server_can_bind_only_once_and_says_so(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service) as server:
            taken = ListenerOptions("SECOND", HOST, server.ports["OUT"])
            with pytest.raises(OSError, match="in use"):
                await server.listen(service, taken)
            await server.listen(service, ListenerOptions("SECOND", HOST, 0))
            client = await server.connect("SECOND")
            client.send(ask("through the other door"))
            assert await client.text() == "through the other door"
            assert service.connections[0].listener == "SECOND"

    play(arena, scenario)
