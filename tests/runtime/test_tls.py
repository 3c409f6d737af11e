"""TLS through the runtime's network, on both real loops."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from moldau.runtime import Runtime
from tests.runtime.arena import HOST, REAL_ARENAS, play
from tests.runtime.localhost_certificate import certificate as certificate


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_streams_work_over_tls_and_writes_after_close_are_dropped(
    arena: str, certificate: Path
) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    asking = ssl.create_default_context(cafile=str(certificate))

    async def scenario(runtime: Runtime) -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()
            writer.write(b"too late")

        async with await runtime.network.serve_streams(serve, HOST, 0, tls=serving) as listener:
            reader, writer = await runtime.network.open_streams(
                HOST, listener.port, tls=asking, server_name="localhost"
            )
            assert writer.get_extra_info("ssl_object") is not None
            writer.write(b"hello\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            writer.write(b"too late")
            return answer

    assert play(arena, scenario) == b"HELLO\n"


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_a_certificate_that_nobody_vouches_for_is_refused(arena: str, certificate: Path) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)

    async def scenario(runtime: Runtime) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with await runtime.network.serve_streams(serve, HOST, 0, tls=serving) as listener:
            with pytest.raises(ssl.SSLCertVerificationError):
                await runtime.network.open_streams(
                    HOST, listener.port, tls=ssl.create_default_context(), server_name="localhost"
                )

    play(arena, scenario)
