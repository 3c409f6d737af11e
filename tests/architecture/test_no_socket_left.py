"""Each test fails by itself if it leaves a connection open: what tests/no_socket_left.py finds."""

from __future__ import annotations

import asyncio
import gc
import warnings
from socket import SOCK_STREAM, socket, socketpair

import pytest

from tests.no_socket_left import fail_if_a_connection_is_left


class Kept(asyncio.Protocol):
    """The protocol that the message names."""


async def connect(end: socket) -> asyncio.Transport:
    transport, _ = await asyncio.get_running_loop().create_connection(Kept, sock=end)
    return transport


def test_a_connection_that_outlives_its_loop_is_named_once_and_closed() -> None:
    here, there = socketpair(type=SOCK_STREAM)
    with there:
        left = asyncio.run(connect(here))
        with pytest.raises(AssertionError, match=r"test_no_socket_left\.Kept at "):
            fail_if_a_connection_is_left()
        fail_if_a_connection_is_left()
        assert there.recv(1) == b""
        del left
        gc.collect()


def test_a_connection_that_is_still_closing_as_its_loop_ends_is_named() -> None:
    here, there = socketpair(type=SOCK_STREAM)
    with there:
        loop = asyncio.new_event_loop()
        left = loop.run_until_complete(connect(here))
        left.close()
        loop.close()
        with pytest.raises(AssertionError, match=r"Kept at "):
            fail_if_a_connection_is_left()


def test_connections_that_are_closed_or_collected_are_not_left() -> None:
    async def main() -> None:
        transport = await connect(here)
        transport.close()
        await asyncio.sleep(0)

    here, there = socketpair(type=SOCK_STREAM)
    with there:
        asyncio.run(main())
        fail_if_a_connection_is_left()

    here, there = socketpair(type=SOCK_STREAM)
    with there, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.run(connect(here))
        gc.collect()
        fail_if_a_connection_is_left()
