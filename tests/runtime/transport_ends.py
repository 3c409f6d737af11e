"""Both ends of a connection: protocols that note what a transport calls, and buffers that are lent
out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.runtime import Runtime
from tests.runtime.arena import HOST

BIG = bytes(range(256)) * 8192  # 2 MiB


class Recorder(asyncio.Protocol):
    """Writes down what the transport calls, in order."""

    def __init__(self, *, stay_open: bool = False) -> None:
        self.calls: list[str] = []
        self.data = bytearray()
        self.stay_open = stay_open
        self.error: Exception | None = None
        self.transport: asyncio.Transport
        self.made = asyncio.Event()
        self.ended = asyncio.Event()
        self.lost = asyncio.Event()
        self._wanted: list[tuple[int, asyncio.Event]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.calls.append("made")
        self.made.set()

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        assert data
        if self.calls[-1] != "data":
            self.calls.append("data")
        self.data += data
        for size, event in self._wanted:
            if len(self.data) >= size:
                event.set()

    def eof_received(self) -> bool:
        self.calls.append("eof")
        self.ended.set()
        return self.stay_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.error = exc
        self.lost.set()

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    async def received(self, size: int) -> None:
        """Waits until so many bytes have come."""
        event = asyncio.Event()
        self._wanted.append((size, event))
        if len(self.data) < size:
            await event.wait()


async def pair(
    runtime: Runtime,
    client: Callable[[], asyncio.BaseProtocol] = Recorder,
    server: Callable[[], asyncio.BaseProtocol] = Recorder,
) -> tuple[Recorder, Recorder]:
    """Both ends of a fresh connection, the client's first."""
    ends: list[asyncio.BaseProtocol] = []
    made = asyncio.Event()

    def accept() -> asyncio.BaseProtocol:
        ends.append(server())
        asyncio.get_running_loop().call_soon(made.set)
        return ends[0]

    async with await runtime.network.listen(accept, HOST, 0) as listener:
        _, near = await runtime.network.connect(client, HOST, listener.port)
        await made.wait()
    far = ends[0]
    if isinstance(far, Recorder):
        await far.made.wait()
    return near, far  # type: ignore[return-value]


class Frames(asyncio.BufferedProtocol):
    """Reads into one small buffer that it lends out again and again."""

    def __init__(self, size: int) -> None:
        self.buffer = bytearray(size)
        self.data = bytearray()
        self.transport: asyncio.Transport
        self.lost = asyncio.Event()
        self.hints: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        self.hints.append(sizehint)
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        assert 0 < nbytes <= len(self.buffer)
        self.data += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
