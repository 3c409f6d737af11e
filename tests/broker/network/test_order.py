"""A request that waits before its effect holds back what came behind it on its connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from moldau.broker.network import NetworkOptions, Request
from moldau.broker.network.reason import Reason
from moldau.runtime import Runtime
from tests.broker.network.arena import ScriptedService, answer, answer_to, ask, echo, serving
from tests.broker.network.virtual_pause import after
from tests.broker.network.wire import Wire, stream, wired
from tests.runtime.arena import ARENAS, play

LARGE = "x" * 30_000


class HoldingService(ScriptedService):
    """Lets requests whose text begins with "hold" hold the order, and parks those that begin with
    "park". The others are answered at once."""

    def __init__(self) -> None:
        super().__init__(self._take)
        self.order: list[str] = []
        self.held: list[Request] = []
        self.parked: list[Request] = []

    def _take(self, request: Request) -> None:
        text = answer_to(request).cluster_id or ""
        self.order.append(text[:6])
        if text.startswith("park"):
            self.parked.append(request)
        elif text.startswith("hold"):
            self.held.append(request)
            request.hold_order()
        else:
            echo(request)


async def turns() -> None:
    """Lets everything happen that is due."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("arena", ARENAS)
def test_a_request_that_holds_the_order_may_go_on_to_hold_it(arena: str) -> None:
    """1. A batch waits for the coordinator of its transaction. 2. It is large, and is checked."""

    async def scenario(runtime: Runtime) -> None:
        service = HoldingService()
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("hold", "last"))
            await service.until(lambda: len(service.held) == 1)
            held = service.held[0]
            held.hold_order()
            await turns()
            assert service.order == ["hold"]
            held.release_order()
            await service.until(lambda: "last" in service.order)
            held.answer(answer("held"))
            assert [await client.text() for _ in range(2)] == ["held", "last"]
            assert server.count("pauses", "order") == 1

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
@pytest.mark.parametrize("is_answer", [True, False])
def test_requests_behind_one_that_holds_the_order_are_served_when_it_has_taken_effect(
    arena: str, is_answer: bool
) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = HoldingService()
        async with serving(runtime, service) as server:
            client, other = await server.connect(), await server.connect()
            client.writer.write(client.frames("before", "hold", "after", "hold-2", "last"))
            assert await client.text() == "before"
            await service.until(lambda: len(service.held) == 1)
            other.send(ask("other"))

            assert await other.text() == "other"
            assert service.order == ["before", "hold", "other"]
            held = service.held[0]
            if is_answer:
                held.answer(answer("held"))
            else:
                held.release_order()
            await service.until(lambda: len(service.held) == 2)
            assert service.order == ["before", "hold", "other", "after", "hold-2"]
            service.held[1].answer(answer("held-2"))
            await service.until(lambda: "last" in service.order)
            if not is_answer:
                held.answer(answer("held"))
            found = [await client.text() for _ in range(4)]
            assert found == ["held", "after", "held-2", "last"]
            assert server.count("pauses", "order") == 2

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_answers_to_requests_before_the_one_that_holds_the_order_leave(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = HoldingService()
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("park", "hold", "after"))
            await service.until(lambda: len(service.held) == 1)
            service.parked[0].answer(answer("parked"))

            assert await client.text() == "parked"
            assert service.order == ["park", "hold"]
            service.held[0].answer_nothing()
            client.protocol.in_flight.popleft()
            assert await client.text() == "after"

    play(arena, scenario)


def _end(wire: Wire, end: str) -> None:
    if end == "lost":
        wire.protocol.connection_lost(None)
    elif end == "closed":
        wire.protocol.close()
    elif end == "aborted":
        wire.protocol.abort(Reason.SLOW_READER)
    else:
        wire.protocol.drain()


@pytest.mark.parametrize("end", ["lost", "closed", "aborted", "drained"])
@pytest.mark.parametrize("is_answer", [True, False])
def test_the_end_of_a_connection_drops_what_is_held_back(end: str, is_answer: bool) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = HoldingService()
        for connect in wired(runtime, service):
            wire, other = connect(), connect()
            wire.receive(stream("hold", LARGE, "after"))
            assert wire.is_paused
            (held,) = service.held
            _end(wire, end)
            if is_answer:
                held.answer(answer("held"))
            else:
                held.release_order()
            await turns()
            if not is_answer:
                held.answer(answer("held"))
                await turns()
            other.receive(stream("other"))

            assert service.order == ["hold", "other"]
            assert wire.is_paused
            assert (b"held" in wire.written) == (end == "drained")
            assert wire.is_closed == (end != "lost")

    play(ARENAS[0], scenario)


def test_frames_held_back_count_as_request_memory_and_do_not_stop_other_connections() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = HoldingService()
        options = NetworkOptions(queued_request_bytes_max=50_000, in_flight_max=8)
        for connect in wired(runtime, service, options):
            wire, other = connect(), connect()
            wire.receive(stream("hold", LARGE, LARGE))
            other.receive(stream(LARGE, "other"))
            assert service.order == ["hold", LARGE[:6], "other"]
            assert (wire.is_paused, other.is_paused) == (True, False)

            service.held[0].release_order()
            service.held[0].release_order()
            await turns()
            assert service.order == ["hold", LARGE[:6], "other", LARGE[:6], LARGE[:6]]
            assert (wire.is_paused, other.is_paused) == (False, False)
            service.held[0].answer(answer("held"))
            await turns()

    play(ARENAS[0], scenario)


def test_an_answer_that_fails_releases_the_order() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = HoldingService()
        for connect in wired(runtime, service):
            wire = connect()
            wire.receive(stream("hold", "after"))
            (held,) = service.held
            with pytest.raises(AttributeError):
                held.answer(cast(Any, object()))
            await turns()

            assert service.order == ["hold", "after"]
            held.answer(answer("held"))
            await turns()
            assert wire.written.index(b"held") < wire.written.index(b"after")

    play(ARENAS[0], scenario)


def test_a_request_that_is_answered_or_has_closed_its_connection_holds_nothing() -> None:
    async def scenario(runtime: Runtime) -> None:
        def serve(request: Request) -> None:
            if answer_to(request).cluster_id == "close":
                request.connection.close()
            else:
                echo(request)
            request.hold_order()

        service = ScriptedService(serve)
        for connect in wired(runtime, service):
            wire = connect()
            wire.receive(stream("a", "b", "close", "after"))
            await turns()

            assert len(service.requests) == 3
            assert wire.is_closed

    play(ARENAS[0], scenario)


def test_a_connection_is_not_idle_while_a_request_holds_its_order() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = HoldingService()
        async with serving(runtime, service, NetworkOptions(idle_ms_max=1_000)) as server:
            client = await server.connect()
            client.writer.write(client.frames("hold", "after"))
            await service.until(lambda: len(service.held) == 1)
            await after(5)
            service.held[0].answer(answer("held"))

            assert [await client.text(), await client.text()] == ["held", "after"]

    play("simulated", scenario)


def test_a_throttled_request_that_releases_the_order_is_still_throttled() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = HoldingService()
        service.throttle = lambda request, response: 1_000 if request in service.held else 0
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.write(client.frames("hold", "after"))
            await service.until(lambda: len(service.held) == 1)
            service.held[0].answer(answer("held"))
            assert await client.text() == "held"
            begun = runtime.clock.monotonic()

            assert await client.text() == "after"
            assert runtime.clock.monotonic() - begun > 0.9

    play("simulated", scenario)
