"""A proxy between a client and an HTTP server that spoils what it is told to.

It reads whole requests and whole answers, so that each fault has one meaning: the server has done
the request, or has not seen it.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Final, NamedTuple, Self

_KEY: Final = re.compile(rb"<Key>[^<]*</Key>")
_HEAD_MAX: Final = 1 << 16
_SLOW_PIECES: Final = 8


class Fault(Enum):
    """What becomes of one request."""

    PASS = "passed on"  # noqa: S105 - not a password
    BUSY = "answered 503 without the server"
    BROKEN = "answered 500 without the server"
    SKEWED = "answered as by a server with another time"
    HANG = "never answered, and not passed on"
    SLOW = "answered piece by piece"
    CUT = "answered, but the connection ends in the answer"
    LOST = "done by the server, but the connection ends without an answer"
    LATE = "done by the server, and never answered"
    TORN = "half of the request reaches the server, and both connections end"
    LATER = "a deletion that is answered as if done; the server does it when it catches up"


class SeenRequest(NamedTuple):
    """A request and its fault."""

    method: str
    path: str
    fault: Fault


_ANSWERS: Final = {
    Fault.BUSY: (
        "503 Slow Down",
        "<Error><Code>SlowDown</Code><Message>Please reduce your rate</Message></Error>",
    ),
    Fault.BROKEN: (
        "500 Internal Server Error",
        "<Error><Code>InternalError</Code><Message>We had a problem</Message></Error>",
    ),
    Fault.SKEWED: (
        "403 Forbidden",
        "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time"
        " and the current time is too large.</Message></Error>",
    ),
}


class FaultyProxy:
    """A proxy on a port of its own. `faults` go to the next requests, one each; `only` names the
    method that they are for, and `within` what their path has."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.faults: deque[Fault] = deque()
        self.only: str | None = None
        self.within = ""
        self.always: Fault | None = None
        self.seen: list[SeenRequest] = []
        self._later: list[tuple[bytes, bytes]] = []
        self.answered_bytes = 0
        """The bytes of all answers that came from the server."""

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while await self._serve_one(reader, writer):
                    pass
                await _ended(writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve a request; return whether the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_content_length(head))
        method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        fault = self._fault_for(method, path)
        self.seen.append(SeenRequest(method, path, fault))
        if fault in _ANSWERS:
            status, text = _ANSWERS[fault]
            sent = "" if method == "HEAD" else text
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(text)}\r\n\r\n{sent}".encode())
            await writer.drain()
            return True
        if fault is Fault.TORN:
            await self._tear(head, body)
            return False
        if fault is Fault.LATER:
            self._later.append((head, body))
            deleted = (b"<Deleted>%s</Deleted>" % key for key in _KEY.findall(body))
            result = b"<DeleteResult>%s</DeleteResult>" % b"".join(deleted)
            head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(result)
            writer.write(head + result)
            await writer.drain()
            return True
        if fault is Fault.HANG:
            await asyncio.Event().wait()
        answer_head, answer = await self._ask(head, body)
        self.answered_bytes += len(answer)
        if fault is Fault.LATE:
            await asyncio.Event().wait()
        if fault is Fault.LOST:
            return False
        writer.write(answer_head)
        if fault is Fault.CUT:
            writer.write(answer[: len(answer) // 2])
            await writer.drain()
            return False
        step = max(1, len(answer) // _SLOW_PIECES) if fault is Fault.SLOW else len(answer) or 1
        for start in range(0, len(answer), step):
            writer.write(answer[start : start + step])
            await writer.drain()
        await writer.drain()
        return True

    async def catch_up(self) -> None:
        """Let the server do what was answered as done."""
        while self._later:
            await self._ask(*self._later.pop(0))

    async def _tear(self, head: bytes, body: bytes) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        try:
            writer.write(head + body[: len(body) // 2])
            with suppress(ConnectionError):
                await _ended(writer)
        finally:
            writer.transport.abort()

    def _fault_for(self, method: str, path: str) -> Fault:
        if self.only not in (None, method) or self.within not in path:
            return Fault.PASS
        if self.always is not None:
            return self.always
        return self.faults.popleft() if self.faults else Fault.PASS

    async def _ask(self, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Return the server's answer. The client's signature covers the headers: they stay."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._upstream_port, limit=_HEAD_MAX
        )
        try:
            writer.write(head + body)
            await writer.drain()
            answer_head = await reader.readuntil(b"\r\n\r\n")
            is_bodiless = head.startswith(b"HEAD ") or b" 204 " in answer_head.split(b"\r\n")[0]
            if is_bodiless:
                return answer_head, b""
            if b"transfer-encoding: chunked" in answer_head.lower():
                return answer_head, await _read_chunked(reader)
            return answer_head, await reader.readexactly(_content_length(answer_head))
        finally:
            writer.transport.abort()  # a close would wait for what the server does not take


async def _ended(writer: asyncio.StreamWriter) -> None:
    """Send what was written, and close."""
    writer.close()
    await writer.wait_closed()


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    """Return a chunked body as it is on the wire."""
    found = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        found += line + await reader.readexactly(size + 2)
        if not size:
            return found


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
