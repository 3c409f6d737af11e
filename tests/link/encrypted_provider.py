"""A token endpoint with TLS, and a certificate of an authority that the system does not know."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from moldau.runtime import Runtime
from tests.link.certificates import Authority

BODY = b'{"access_token": "a-token", "expires_in": 300}'
CHUNKS = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (BODY[:9], BODY[9:], b""))


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, in chunks."""
    try:
        await reader.readuntil(b"grant_type=client_credentials")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS)
        await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def encrypted_provider(runtime: Runtime, folder: Path) -> AsyncIterator[str]:
    """Serve `a-token` and yield the URL. The authority is in ca.pem."""
    authority = Authority()
    (folder / "id.pem").write_text(authority.issue("localhost").pem)
    (folder / "ca.pem").write_text(authority.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "id.pem")
    async with await runtime.network.serve_streams(answer, "127.0.0.1", 0, tls=context) as at:
        yield f"https://localhost:{at.port}/token"
