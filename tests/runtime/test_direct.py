"""Options of a connection's socket, set past its transport; sendfile is tested where it is used."""

from __future__ import annotations

import asyncio
import socket

import pytest

from moldau.runtime import Runtime
from moldau.runtime.direct import open_direct, set_buffer_sizes
from tests.runtime.arena import HOST, REAL_ARENAS, play


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


def test_a_simulated_connection_has_no_socket() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with await runtime.network.listen(asyncio.Protocol, HOST, 0) as listener:
            transport, _ = await runtime.network.connect(asyncio.Protocol, HOST, listener.port)
            set_buffer_sizes(transport, 20_000, 20_000)
            assert open_direct(transport) is None
            transport.close()

    play("simulated", scenario)
