"""Slices of files under TLS: never past the transport, whatever the system could do."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from moldau.broker.network import ListenerOptions, NetworkOptions
from moldau.runtime import Runtime
from moldau.runtime.direct import open_direct
from moldau.runtime.tls import TlsServer
from tests.broker.network.arena import Client, ScriptedService, ask, serving
from tests.broker.network.file_slices import MEBIBYTE, FilePiece, give, received, slice_file
from tests.runtime.arena import HOST, REAL_ARENAS, play, until
from tests.runtime.localhost_certificate import certificate

__all__ = ["certificate"]


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_slices_of_files_leave_through_tls(
    arena: str,
    certificate: Path,
) -> None:
    serving_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving_tls.load_cert_chain(certificate)
    asking = ssl.create_default_context(cafile=str(certificate))

    async def scenario(runtime: Runtime) -> None:
        file, content = slice_file(runtime, 2 * MEBIBYTE)
        service = ScriptedService(
            lambda request: give(request, b"head", FilePiece(file, 0, len(content)), b"tail")
        )
        options = ListenerOptions("OUT", HOST, 0, tls=serving_tls)
        async with serving(runtime, service, None, options, direct=open_direct) as server:
            streams = await runtime.network.open_streams(
                HOST, server.ports["OUT"], tls=asking, server_name="localhost"
            )
            client = Client(*streams)
            for _ in range(3):
                client.send(ask("all"))
            for _ in range(3):
                assert await received(client) == b"head" + content + b"tail"
            assert service.connections[0].transport_info("cipher") is not None
            client.close()
            await service.until(lambda: bool(service.lost))

    play(arena, scenario)


def tls_server(certificate: Path) -> TlsServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return TlsServer(lambda: context, lambda peer, reason: None)


def test_a_handshake_counts_for_its_address(certificate: Path) -> None:
    """It has a place from the accept on, and the connection has the same place after it."""
    asking = ssl.create_default_context(cafile=str(certificate))

    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        options = ListenerOptions("OUT", HOST, 0, tls=tls_server(certificate))
        limits = NetworkOptions(
            connections_max_per_address=2, connection_rate_of=lambda address: 2.0
        )
        async with serving(runtime, service, limits, options) as server:
            port = server.ports["OUT"]
            silent = await server.connect()
            streams = await runtime.network.open_streams(
                HOST, port, tls=asking, server_name="localhost"
            )
            client = Client(*streams)
            client.send(ask("one"))
            assert await client.text() == "one"
            assert server.count("connections.active", "OUT") == 2
            assert await (await server.connect()).is_closed()
            assert any("too many connections from this address" in each for each in server.lines)
            client.close()
            await service.until(lambda: bool(service.lost))
            silent.close()

    play("asyncio", scenario)


def test_a_handshake_waits_in_line_when_the_listener_is_full(certificate: Path) -> None:
    asking = ssl.create_default_context(cafile=str(certificate))

    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        options = ListenerOptions("OUT", HOST, 0, tls=tls_server(certificate), connections_max=1)
        async with serving(runtime, service, None, options) as server:
            silent = await server.connect()
            opening = asyncio.ensure_future(
                runtime.network.open_streams(
                    HOST, server.ports["OUT"], tls=asking, server_name="localhost"
                )
            )
            await until(lambda: server.count("connections.waiting", "OUT") == 1)
            silent.close()
            client = Client(*await opening)
            client.send(ask("one"))
            assert await client.text() == "one"
            client.close()
            await service.until(lambda: bool(service.lost))

    play("asyncio", scenario)


def test_a_closed_listener_ends_its_handshakes(certificate: Path) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        options = ListenerOptions("OUT", HOST, 0, tls=tls_server(certificate))
        async with serving(runtime, service, None, options) as server:
            half = await server.connect()
            half.writer.write(b"\x16\x03\x01\x02\x00")
            await until(lambda: server.count("connections.active", "OUT") == 1)
            server.server.close_listener("OUT")
            assert await half.is_closed()
            assert server.count("connections.active", "OUT") == 0
            assert not service.connections

    play("asyncio", scenario)
