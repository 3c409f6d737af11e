"""Slow readers, slices of files, memory, limits: bounded, and the others do not notice."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import pytest

from moldau.broker.network import ListenerOptions, NetworkOptions, OpenDirect, Request
from moldau.protocol.messages.metadata import MetadataResponse
from moldau.runtime import Runtime
from moldau.runtime.direct import DirectSocket, open_direct
from tests.broker.network.arena import ScriptedService, answer, ask, serving
from tests.broker.network.file_slices import MEBIBYTE, FilePiece, give, received, slice_file
from tests.runtime.arena import ARENAS, HOST, REAL_ARENAS, play, until

WAYS = [pytest.param(arena, None, id=str(getattr(arena, "id", arena))) for arena in ARENAS[2:]]
# Without the arena that cuts everything into pieces of three bytes.
FAST_WAYS = WAYS[:1]
WAYS += [
    pytest.param(*getattr(arena, "values", (arena,)), way, marks=getattr(arena, "marks", ()))
    for arena in REAL_ARENAS
    for way in (None, open_direct)
]
FAST_WAYS += WAYS[2:]


@pytest.mark.parametrize(("arena", "direct"), WAYS)
def test_slices_of_files_leave_between_buffers_whichever_way(
    arena: str, direct: OpenDirect | None
) -> None:
    opened: list[DirectSocket] = []

    def open_noted(transport: Any) -> DirectSocket | None:
        assert direct is not None
        found = cast(DirectSocket, direct(transport))
        opened.append(found)
        return found

    async def scenario(runtime: Runtime) -> None:
        file, content = slice_file(runtime, 3 * MEBIBYTE if direct else 3 * MEBIBYTE // 8)
        size = len(content)

        def serve(request: Request) -> None:
            large, small = FilePiece(file, 5, size - 5), FilePiece(file, 11, 300)
            give(request, b"head", large, b"between", small, b"", b"tail", large)

        service = ScriptedService(serve)
        way = open_noted if direct else None
        async with serving(runtime, service, direct=way) as server:
            client = await server.connect()
            for number in range(3):
                client.send(ask(f"{number}"))
            expected = b"head" + content[5:] + b"between" + content[11:311] + b"tail" + content[5:]
            for _ in range(3):
                assert await received(client) == expected
            assert server.count("sent") == 3 * (len(expected) + 9)
        assert len(opened) == (1 if direct else 0)
        assert all(each.sent_files > 3 for each in opened)

    play(arena, scenario)


@pytest.mark.parametrize(("arena", "direct"), FAST_WAYS)
def test_a_reader_that_does_not_read_costs_one_chunk_and_then_gets_everything(
    arena: str, direct: OpenDirect | None
) -> None:
    async def scenario(runtime: Runtime) -> None:
        file, content = slice_file(runtime, MEBIBYTE)
        slices = [FilePiece(file, 0, MEBIBYTE) for _ in range(24)]

        def serve(request: Request) -> None:
            if len(service.requests) == 1:
                give(request, b"", *slices)
            else:
                give(request, b"small")

        service = ScriptedService(serve)
        async with serving(runtime, service, direct=direct) as server:
            lazy, busy = await server.connect(), await server.connect()
            lazy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(3):
                lazy.send(ask("much"))
            await service.until(lambda: bool(service.requests))
            for _ in range(200):
                busy.send(ask("little"))
                assert await received(busy) == b"small"
            mine = [each for each in service.requests if each.connection.peer_port == port_of(lazy)]
            assert len(mine) == 1, "the next is not served before the first is sent"
            assert sum(each.read_bytes for each in slices) < 16 * MEBIBYTE

            lazy.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await received(lazy) == content * 24
            assert await received(lazy) == b"small"
            assert await received(lazy) == b"small"

    play(arena, scenario)


def port_of(client: Any) -> int:
    return int(client.writer.get_extra_info("sockname")[1])


@pytest.mark.parametrize(("arena", "direct"), WAYS)
def test_a_slice_whose_file_was_cut_ends_the_connection(
    arena: str, direct: OpenDirect | None
) -> None:
    async def scenario(runtime: Runtime) -> None:
        file, _ = slice_file(runtime, MEBIBYTE)
        service = ScriptedService(
            lambda request: give(request, b"head", FilePiece(file, 0, MEBIBYTE + 1))
        )
        async with serving(runtime, service, direct=direct) as server:
            client = await server.connect()
            client.send(ask("all"))
            with suppress(ConnectionError):
                while await client.reader.read(MEBIBYTE):
                    pass
            await service.until(lambda: bool(service.lost))

            assert server.count("connections.closed", "OUT", "unreadable_file") == 1
            assert any("cannot read part of an answer" in line for line in server.lines)

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_answers_from_outside_that_nobody_reads_are_bounded(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService(lambda request: None)
        options = NetworkOptions(unsent_bytes_max=2 * MEBIBYTE, unsent_bytes_pause=MEBIBYTE)
        async with serving(runtime, service, options) as server:
            client = await server.connect()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.writer.write(client.frames(*["x"] * 100))
            await service.until(lambda: len(service.requests) == 100)
            for request in service.requests:
                request.answer(answer("y" * 30_000))
            await service.until(lambda: bool(service.lost))

            assert server.count("connections.closed", "OUT", "slow_reader") == 1

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_when_request_memory_is_short_large_requests_take_turns_and_small_ones_go_on(
    arena: str,
) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        size = 30_000
        async with serving(
            runtime, service, NetworkOptions(queued_request_bytes_max=50_000)
        ) as server:
            large = [await server.connect() for _ in range(6)]
            small = await server.connect()
            texts = [f"{number}" + "x" * size for number in range(6)]
            sent = [client.frames(text) for client, text in zip(large, texts, strict=True)]
            for client, data in zip(large, sent, strict=True):
                client.writer.write(data[:20_000])
            for _ in range(3):
                small.send(ask("quick"))
                assert await small.text() == "quick"
            for client, data in zip(large, sent, strict=True):
                client.writer.write(data[20_000:])
            assert [await client.text() for client in large] == texts

            assert server.server.queued_request_bytes == 0
            assert server.count("pauses", "memory") >= 1

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_connections_over_the_limit_wait_and_come_in_when_another_leaves(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service, NetworkOptions(connections_max=2)) as server:
            clients = [await server.connect() for _ in range(4)]
            for number, client in enumerate(clients):
                client.send(ask(f"{number}"))
            assert [await clients[0].text(), await clients[1].text()] == ["0", "1"]
            assert len(service.requests) == 2
            assert server.count("connections.waiting", "OUT") == 2
            impatient = await server.connect()
            for _ in range(100):
                impatient.writer.write(impatient.frames("x" * 30_000))
            for _ in range(50):
                clients[0].send(ask("meanwhile"))
                assert await clients[0].text() == "meanwhile"
            assert server.server.queued_request_bytes <= 256 << 10, "it is not read any more"
            impatient.writer.transport.abort()

            clients[1].close()
            assert await clients[2].text() == "2"
            clients[0].close()
            assert await clients[3].text() == "3"
            assert server.count("connections.opened", "OUT") == 4

    play(arena, scenario)


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_a_connection_that_ended_in_line_is_not_served(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service, NetworkOptions(connections_max=1)) as server:
            first, dead, alive = [await server.connect() for _ in range(3)]
            first.send(ask("first"))
            assert await first.text() == "first"
            await until(lambda: server.count("connections.waiting", "OUT") == 2)
            dead.close()
            await dead.writer.wait_closed()
            first.close()
            alive.send(ask("alive"))
            assert await alive.text() == "alive"
            assert server.count("connections.opened", "OUT") == 2

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_too_many_from_one_address_are_closed_at_once(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(
            runtime, service, NetworkOptions(connections_max_per_address=1)
        ) as server:
            first = await server.connect()
            first.send(ask("in"))
            assert await first.text() == "in"
            second = await server.connect()
            assert await second.is_closed()

            assert server.count("connections.closed", "OUT", "address_full") == 1
            assert len(service.connections) == 1
            first.close()
            await service.until(lambda: len(service.lost) == 1)
            third = await server.connect()
            third.send(ask("in again"))
            assert await third.text() == "in again"

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_a_broker_comes_into_a_full_node_and_the_idlest_client_makes_room(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        doors = (
            ListenerOptions("OUT", HOST, 0),
            ListenerOptions("IN", HOST, 0, is_protected=True),
        )
        async with serving(runtime, service, NetworkOptions(connections_max=1), *doors) as server:
            client = await server.connect("OUT")
            client.send(ask("client"))
            assert await client.text() == "client"
            broker = await server.connect("IN")
            broker.send(ask("broker"))
            assert await broker.text() == "broker"
            assert await client.is_closed()

            assert server.count("connections.closed", "OUT", "made_room") == 1

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_other_options_count_at_once(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        async with serving(runtime, service, NetworkOptions(connections_max=0)) as server:
            client = await server.connect()
            client.send(ask("let me in"))
            server.server.update(NetworkOptions())

            assert await client.text() == "let me in"

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_a_throttled_client_is_answered_and_then_not_read(arena: str) -> None:
    """The answer says how long to wait, and what the client sends meanwhile stays unread."""

    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        waits = iter((300, 0, 0, 0))
        service.throttle = lambda request, response: next(waits)
        async with serving(runtime, service) as server:
            client, other = await server.connect(), await server.connect()
            began = runtime.clock.monotonic()
            client.writer.write(client.frames("over", "next"))
            first = await client.receive()
            assert isinstance(first, MetadataResponse)
            assert (first.cluster_id, first.throttle_time_ms) == ("over", 300)
            assert runtime.clock.monotonic() - began < 0.25
            other.send(ask("other"))
            assert await other.text() == "other", "only its own connection is held"
            client.send(ask("third"))
            second = await client.receive()
            assert isinstance(second, MetadataResponse)
            assert (second.cluster_id, second.throttle_time_ms) == ("next", 0)
            assert runtime.clock.monotonic() - began >= 0.3
            assert await client.text() == "third"
            assert server.count("pauses", "throttled") == 1
            assert len(service.requests) == 4

    play(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_a_throttled_client_that_leaves_is_forgotten(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        service.throttle = lambda request, response: 200
        async with serving(runtime, service) as server:
            client = await server.connect()
            client.send(ask("over"))
            assert await client.text() == "over"
            client.close()
            await service.until(lambda: len(service.lost) == 1)
            assert server.count("connections.closed", "OUT", "peer") == 1

    play(arena, scenario)
