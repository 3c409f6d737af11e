"""A listening port with asyncio's server interface, and its accept queue.

Invariants: a connection is in the accept queue from the moment its peer sees it as established
until the application accepts it, and the queue holds at most `backlog`; closing frees the port at
once and resets connections that were never accepted; accepted connections stay open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from moldau.runtime.interface import Listener
from moldau.runtime.simulated.endpoint import Endpoint
from moldau.runtime.simulated.incarnation import CURRENT, Incarnation
from moldau.runtime.simulated.turn import Turn

if TYPE_CHECKING:
    from moldau.runtime.simulated.host import Host
    from moldau.runtime.simulated.loop import SimulatedLoop
    from moldau.runtime.simulated.transport import SimulatedTransport


class SimulatedServer(asyncio.AbstractServer):
    """The result of `loop.create_server`."""

    def __init__(
        self,
        loop: SimulatedLoop,
        host: Host,
        bound: list[tuple[str, int]],
        factory: Callable[[], asyncio.BaseProtocol],
        context: Context,
        backlog: int,
    ) -> None:
        self._loop = loop
        self._host = host
        self._bound = bound
        self._factory = factory
        self._context = context
        self._backlog = max(1, backlog)
        self._waiting: deque[SimulatedTransport] = deque()
        self._serving = False
        self._closed = False
        self._forever: asyncio.Future[Any] | None = None
        self.incarnation: Incarnation | None = context.get(CURRENT)

    def listen(self) -> None:
        """Bind the ports."""
        if self._serving or self._closed:
            return
        try:
            for address, port in self._bound:
                self._host.bind(address, port, self)
        except OSError:
            self._host.release(self)
            raise
        self._serving = True

    @property
    def has_room(self) -> bool:
        """Whether one more connection may wait to be accepted."""
        return self._host.accepts and len(self._waiting) < self._backlog

    def offer(self, transport: SimulatedTransport) -> None:
        """Add a connection after its handshake: it waits until the application accepts it."""
        self._waiting.append(transport)
        context = self._context.copy()
        self._loop.make_ready(Turn(self._accept, (), context))

    def _accept(self) -> None:
        if not self._waiting:
            return
        transport = self._waiting.popleft()
        protocol: asyncio.BaseProtocol | None = None
        try:
            protocol = self._factory()
        finally:
            if protocol is None:
                transport.abort()
        transport.start(protocol, self.incarnation)

    def vanish(self) -> None:
        """Free the ports and reset waiting connections: the process is gone."""
        self._closed = True
        self._serving = False
        self._host.release(self)
        while self._waiting:
            self._waiting.popleft().abort()

    # asyncio's server interface

    @property
    def sockets(self) -> tuple[Endpoint, ...]:
        """The bound ports; empty once closed."""
        return () if self._closed else tuple(Endpoint(bound) for bound in self._bound)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the simulated loop."""
        return self._loop

    def is_serving(self) -> bool:
        """Whether the port is bound."""
        return self._serving

    async def start_serving(self) -> None:
        """Bind the port if it is not bound."""
        self.listen()

    async def serve_forever(self) -> None:
        """Wait until it is cancelled, then close the server."""
        if self._forever is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        if self._closed:
            raise RuntimeError(f"server {self!r} is closed")
        self.listen()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        finally:
            self._forever = None
            self.close()

    def close(self) -> None:
        """Free the port."""
        if self._closed or (self.incarnation is not None and not self.incarnation.alive):
            return
        self.vanish()
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()

    async def wait_closed(self) -> None:
        """Return once the port is free, which it is as soon as `close` was called."""


class SimulatedListener(Listener):
    """The runtime's view of a server."""

    def __init__(self, server: SimulatedServer, addresses: list[tuple[str, int]]) -> None:
        self._server = server
        self._addresses = addresses

    @property
    def port(self) -> int:
        """The bound port."""
        return self._addresses[0][1]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Every bound (host, port)."""
        return list(self._addresses)

    def close(self) -> None:
        """Free the port."""
        self._server.close()
