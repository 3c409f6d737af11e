"""Slices of files under TLS: never past the transport, whatever the system could do."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from moldau.broker.network import ListenerOptions
from moldau.runtime import Runtime
from moldau.runtime.direct import open_direct
from tests.broker.network.arena import Client, ScriptedService, ask, serving
from tests.broker.network.test_backpressure import (
    MEBIBYTE,
    FilePiece,
    give,
    received,
    slice_file,
)
from tests.runtime.arena import HOST, REAL_ARENAS, play
from tests.runtime.test_tls import certificate

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
