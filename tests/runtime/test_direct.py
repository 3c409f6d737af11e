"""Options of a connection's socket, set past its transport; sendfile is tested where it is used."""

from __future__ import annotations

import asyncio
import socket

import pytest

from moldau.runtime import Runtime
from moldau.runtime.direct import has_ended, open_direct, set_buffer_sizes, untaken_bytes
from tests.runtime.arena import HOST, REAL_ARENAS, play, until


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_buffers_get_the_size_that_is_asked_for(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with await runtime.network.listen(asyncio.Protocol, HOST, 0) as listener:
            transport, _ = await runtime.network.connect(asyncio.Protocol, HOST, listener.port)
            before = size_of(transport, socket.SO_RCVBUF)
            set_buffer_sizes(transport, 20_000, None)
            sent, received = (
                size_of(transport, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)
            )
            assert sent in (20_000, 40_000), "Linux counts its own needs twice"
            assert received == before
            transport.close()

    play(arena, scenario)


def size_of(transport: asyncio.Transport, option: int) -> int:
    found = transport.get_extra_info("socket")
    with socket.socket(fileno=socket.dup(found.fileno())) as same:
        return same.getsockopt(socket.SOL_SOCKET, option)


class Reluctant(asyncio.Protocol):
    """Reads nothing until it is told to."""

    transport: asyncio.Transport
    is_made = False
    is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()
        self.is_made = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_what_the_other_side_has_not_taken_is_counted(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        reader = Reluctant()
        async with await runtime.network.listen(lambda: reader, HOST, 0) as listener:
            transport, _ = await runtime.network.connect(asyncio.Protocol, HOST, listener.port)
            assert untaken_bytes(transport) == 0
            transport.write(bytes(16 << 20))
            await until(lambda: untaken_bytes(transport) > 0)
            reader.transport.resume_reading()
            await until(lambda: untaken_bytes(transport) + transport.get_write_buffer_size() == 0)
            transport.close()
            await until(lambda: reader.is_lost)

    play(arena, scenario)


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_the_end_of_a_connection_that_is_not_read_is_found(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        reader = Reluctant()
        async with await runtime.network.listen(lambda: reader, HOST, 0) as listener:
            transport, _ = await runtime.network.connect(asyncio.Protocol, HOST, listener.port)
            await until(lambda: reader.is_made)
            opened = reader.transport.get_extra_info("socket")
            assert not has_ended(opened)
            transport.close()
            await until(lambda: has_ended(opened))
            assert not reader.is_lost, "its loop does not know"
            reader.transport.abort()
            await until(lambda: reader.is_lost)

    play(arena, scenario)


def test_a_simulated_connection_has_no_socket() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with await runtime.network.listen(asyncio.Protocol, HOST, 0) as listener:
            transport, _ = await runtime.network.connect(asyncio.Protocol, HOST, listener.port)
            set_buffer_sizes(transport, 20_000, 20_000)
            assert open_direct(transport) is None
            assert not has_ended(transport.get_extra_info("socket"))
            assert untaken_bytes(transport) == 0
            transport.close()

    play("simulated", scenario)
