"""One HTTP POST over the runtime's network: no thread waits for it, and it ends within a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from moldau.runtime.timeouts import timeout

if TYPE_CHECKING:
    import ssl

    from moldau.runtime.interface import Network

_ANSWER_BYTES: Final = 16_384
_PORTS: Final = {"http": 80, "https": 443}


class CannotPost(Exception):
    """No answer; the text says why."""


async def http_post(
    network: Network,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """Return the status and the beginning of the answer's body. Raise CannotPost. `tls` is for a
    URL with https."""
    try:
        async with timeout(timeout_s):
            return await _post(network, url, body, headers, tls)
    except TimeoutError as error:
        raise CannotPost(f"no answer within {timeout_s:g} s") from error
    except UnicodeError as error:
        raise CannotPost("the host or a header has a character that HTTP does not take") from error
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise CannotPost(f"{type(error).__name__}: {error}") from error


async def _post(
    network: Network,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
) -> tuple[int, bytes]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or _PORTS[parts.scheme]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    context, name = (tls, host) if parts.scheme == "https" else (None, None)
    reader, writer = await network.open_streams(host, port, tls=context, server_name=name)
    try:
        own = {
            "Host": parts.netloc.rpartition("@")[2],
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        lines = [f"POST {target} HTTP/1.1"]
        lines += [f"{key}: {value}" for key, value in {**headers, **own}.items()]
        writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
        writer.write(body)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        words = head.split(b"\r\n", 1)[0].split()
        if len(words) < 2 or not words[0].startswith(b"HTTP/1") or not words[1].isdigit():
            raise CannotPost("the answer is not HTTP/1.1")
        return int(words[1]), await reader.read(_ANSWER_BYTES)
    finally:
        writer.close()
