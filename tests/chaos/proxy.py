"""TCP proxies in front of nodes: ways to them that a test cuts.

Each carries the connections of one port. A cut lets nothing through in either direction while both
ends believe in their connections, as a network that swallows does; `mend` delivers what waited.
`reset` ends the connections.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

HOST: Final = "127.0.0.1"
PIECE_BYTES: Final = 65_536
CALL_SECONDS: Final = 30.0


class Way:
    """The way to one port."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0
        self.open = asyncio.Event()
        self.open.set()
        self.writers: set[asyncio.StreamWriter] = set()
        self.accepted = 0
        self.cut_at = 0
        """The number of the connection that cuts the way before it is carried."""

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.accepted += 1
        if self.accepted == self.cut_at:
            self.open.clear()
        try:
            await self.open.wait()
            far_reader, far_writer = await asyncio.open_connection(HOST, self.target_port)
        except OSError:
            writer.transport.abort()
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        both = {writer, far_writer}
        self.writers |= both
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        except OSError:
            pass
        finally:
            self.writers -= both
            for each in both:
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE_BYTES):
            await self.open.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # the other direction ends too

    def reset(self) -> None:
        for each in list(self.writers):
            each.transport.abort()


class Proxies:
    """All ways, on an event loop in a thread of its own; a context."""

    def __init__(self) -> None:
        self.ways: dict[int, Way] = {}
        """By the port behind it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies")
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Proxies:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def add(self, target_port: int, host: str = HOST, port: int = 0) -> int:
        """A way to that port; the port where it begins, which may be asked for."""
        return self._call(self._add(target_port, host, port))

    async def _add(self, target_port: int, host: str, port: int) -> int:
        way = self.ways[target_port] = Way(target_port)
        server = await asyncio.start_server(way.carry, host, port)
        self._servers.append(server)
        way.port = server.sockets[0].getsockname()[1]
        return way.port

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self, target_port: int) -> None:
        """Let nothing through, until `mend`."""
        self._loop.call_soon_threadsafe(self.ways[target_port].open.clear)

    def mend(self, target_port: int) -> None:
        """Let through what waited, and everything after it."""
        self._loop.call_soon_threadsafe(self.ways[target_port].open.set)

    def reset(self, target_port: int) -> None:
        """End all connections on that way."""
        self._loop.call_soon_threadsafe(self.ways[target_port].reset)
