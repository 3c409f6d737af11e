"""Who does nothing is closed in time, who does something is not. In virtual time."""

from __future__ import annotations

import pytest

from moldau.broker.network import NetworkOptions, Request, shell
from moldau.runtime import Runtime
from tests.broker.network.arena import ScriptedService, answer, ask, echo, serving
from tests.broker.network.virtual_pause import after
from tests.runtime.arena import play


def test_a_connection_that_does_nothing_is_closed_when_its_time_is_over() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service) as server:
            idle, busy = await server.connect(), await server.connect()
            for _ in range(13):
                await after(50)
                busy.send(ask("here"))
                assert await busy.text() == "here"
            assert await idle.is_closed()
            began = runtime.clock.monotonic()
            assert await busy.is_closed()

            assert 599 <= runtime.clock.monotonic() - began <= 603
            assert server.count("connections.closed", "OUT", "idle") == 2

    play("simulated", scenario)


def test_without_a_limit_a_connection_may_be_idle_for_ever() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service, NetworkOptions(idle_ms_max=-1)) as server:
            client = await server.connect()
            await after(3_000)
            client.send(ask("still here"))
            assert await client.text() == "still here"

    play("simulated", scenario)


def test_a_request_that_is_served_keeps_its_connection_open() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(Request.keep)
        async with serving(runtime, service, NetworkOptions(idle_ms_max=10_000)) as server:
            client = await server.connect()
            client.send(ask("wait"))
            await after(1000)
            service.requests[0].answer(answer("at last"))

            assert await client.text() == "at last"
            assert await client.is_closed()

    play("simulated", scenario)


def test_a_byte_now_and_then_is_activity_and_costs_nobody_else_anything() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service, NetworkOptions(idle_ms_max=10_000)) as server:
            slow = [await server.connect() for _ in range(50)]
            honest = await server.connect()
            data = next(iter([client.frames("a") for client in slow]))
            for at in range(len(data)):
                for client in slow:
                    client.writer.write(data[at : at + 1])
                honest.send(ask("quick"))
                asked = runtime.clock.monotonic()
                assert await honest.text() == "quick"
                assert runtime.clock.monotonic() - asked < 0.1
                await after(9)
            assert server.count("connections.active", "OUT") == 51
            assert [await client.text() for client in slow] == ["a"] * 50

    play("simulated", scenario)


def test_a_reader_that_never_reads_is_cut_off() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(lambda request: request.answer(answer("x" * 30_000)))
        options = NetworkOptions(idle_ms_max=10_000, unsent_bytes_pause=100_000)
        async with serving(runtime, service, options) as server:
            client = await server.connect()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.writer.write(client.frames(*["x"] * 1000))
            await service.until(lambda: bool(service.lost))

            assert runtime.clock.monotonic() < 60
            assert server.count("connections.closed", "OUT", "slow_reader") == 1
            assert len(service.requests) < 100

    play("simulated", scenario)


def test_a_stop_waits_for_who_takes_answers_slowly_and_not_for_who_takes_none() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(lambda request: request.answer(answer("x" * 30_000)))
        async with serving(runtime, service) as server:
            stuck, slow = await server.connect(), await server.connect()
            for client in (stuck, slow):
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
                client.writer.write(client.frames(*["x"] * 100))
            await after(1)
            stopping = runtime.spawn(server.server.aclose(60.0), name="stop")
            await after(1.9)
            assert service.lost == []
            slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await after(0.5)
            assert len(service.lost) == 1, "the one that takes nothing"
            size = 0
            while data := await slow.reader.read(300_000):
                size += len(data)
                await after(0.9)
            await stopping
            answered = [each for each in service.requests if each.connection is service.lost[1]]
            assert size // 30_000 == len(answered) > 5
            assert server.count("connections.closed", "OUT", "stopped") == 2
            assert sum("client does not read its answers" in line for line in server.lines) == 1

    play("simulated", scenario)


def test_a_stop_waits_for_who_takes_what_the_kernel_has_before_it_asks_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(runtime: Runtime) -> None:
        left = iter(range(100, 0, -1))
        monkeypatch.setattr(shell, "untaken_bytes", lambda transport: next(left))
        service = ScriptedService(lambda request: request.answer(answer("x" * 30_000)))
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.writer.write(client.frames(*["x"] * 100))
            await after(1)
            began = runtime.clock.monotonic()
            await server.server.aclose(9.0)
            assert 9 <= runtime.clock.monotonic() - began < 10
            assert not any("does not read" in line for line in server.lines)

    play("simulated", scenario)


def test_a_stop_waits_for_an_answer_that_is_not_there_yet() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(Request.keep)
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.send(ask("wait"))
            await service.until(lambda: bool(service.requests))
            stopping = runtime.spawn(server.server.aclose(60.0), name="stop")
            await after(30)
            service.requests[0].answer(answer("at last"))
            assert await client.text() == "at last"
            await stopping

    play("simulated", scenario)


def test_half_requests_that_stop_are_given_up_when_memory_is_short() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(
            runtime, service, NetworkOptions(queued_request_bytes_max=99_000)
        ) as server:
            stalled = [await server.connect() for _ in range(8)]
            for client in stalled:
                client.writer.write(client.frames("x" * 30_000)[:25_000])
            await after(1)
            honest = await server.connect()
            data = honest.frames("y" * 30_000)
            honest.writer.write(data[:20_000])
            await after(0.1)
            honest.writer.write(data[20_000:])
            assert await honest.text() == "y" * 30_000

            closed = server.count("connections.closed", "OUT", "stalled_request")
            assert 1 <= closed < 8, "only as many as it takes"
            assert runtime.clock.monotonic() < 30

    play("simulated", scenario)


def test_connections_that_come_too_fast_come_in_later() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(echo)
        async with serving(runtime, service, NetworkOptions(connections_per_second=10)) as server:
            clients = [await server.connect() for _ in range(30)]
            for number, client in enumerate(clients):
                client.send(ask(f"{number}"))
            assert [await client.text() for client in clients] == [f"{n}" for n in range(30)]

            assert 1.9 < runtime.clock.monotonic() < 2.2

    play("simulated", scenario)
