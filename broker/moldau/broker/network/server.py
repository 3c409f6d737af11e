"""The entry point of this package: a server that binds listeners and closes their connections.

    server = SocketServer(runtime, NetworkOptions(), NetworkMetrics(registry), log)
    bound = await server.listen(ListenerOptions("PLAINTEXT", port=9092), service)
    ...
    await server.aclose(grace_seconds=5)

Invariant: after `aclose` no port is bound, and `closed` was called for every admitted connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.broker.network.acceptor import Acceptor, Entrance
from moldau.broker.network.reactor import Reactor
from moldau.broker.network.reason import Reason
from moldau.runtime.tls import TlsServer

if TYPE_CHECKING:
    from moldau.broker.network.direct import OpenDirect
    from moldau.broker.network.metrics import NetworkMetrics
    from moldau.broker.network.options import ListenerOptions, NetworkOptions
    from moldau.broker.network.request import Service
    from moldau.broker.network.shell import Connection
    from moldau.logging import Logger
    from moldau.runtime import Runtime
    from moldau.runtime.interface import Listener


# A client that takes no bytes of its responses for this long, at the end, does not read them.
UNREAD_SECONDS: Final = 2.0


class SocketServer:
    """All listeners of a node. It belongs to the event loop that runs when it is made."""

    def __init__(
        self,
        runtime: Runtime,
        options: NetworkOptions,
        metrics: NetworkMetrics,
        log: Logger,
        open_direct: OpenDirect | None = None,
        room: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`open_direct` enables sendfile, if the system has it. `room` returns how many connections
        the process has files for (None: any number)."""
        self._runtime = runtime
        self._reactor = Reactor(asyncio.get_running_loop(), runtime.clock, options, metrics, log)
        self._entrance = Entrance(self._reactor, open_direct, room)
        self._listeners: dict[str, Listener] = {}
        self._acceptors: dict[str, Acceptor] = {}
        self._log = log

    @property
    def connections(self) -> int:
        """The number of connections, including those in line."""
        return len(self._reactor.connections)

    @property
    def queued_request_bytes(self) -> int:
        """The bytes of requests that are not served yet."""
        return self._reactor.memory.used

    async def listen(self, options: ListenerOptions, service: Service) -> Listener:
        """Bind a listener and serve its connections. Raise OSError if it cannot be bound."""
        limits = self._entrance.limits
        is_new = not limits.has_listener(options.name)
        if is_new:
            limits.add_listener(options)
        else:
            limits.update_listener(options)
        acceptor = Acceptor(self._entrance, options, service, self._runtime.buggify)
        tls = options.tls
        if isinstance(tls, TlsServer):
            tls = replace(tls, arrive=acceptor.before_handshake)
        try:
            listener = await self._runtime.network.listen(
                acceptor, options.host, options.port, backlog=options.backlog, tls=tls
            )
        except OSError:
            if is_new:
                limits.remove_listener(options.name)
            raise
        self._listeners[options.name] = listener
        self._acceptors[options.name] = acceptor
        self._log.info("listens", listener=options.name, port=listener.port)
        return listener

    def update(self, options: NetworkOptions, listeners: Iterable[ListenerOptions] = ()) -> None:
        """Use other options from now on. For listeners this changes only their connection limits.
        Admitted connections stay. Waiting ones may be admitted at once."""
        self._reactor.update(options)
        self._entrance.limits.update(options)
        for each in listeners:
            self._entrance.limits.update_listener(each)
        self._entrance.let_in()

    def close_listener(self, name: str) -> None:
        """Free the port of a listener, and end its connections when the requests in progress are
        answered. Another listener may have the name later."""
        self._acceptors.pop(name).close()
        self._listeners.pop(name).close()
        for connection in list(self._reactor.connections):
            if connection.listener == name:
                connection.drain()

    def stop_listening(self) -> None:
        """Free the ports. Connections stay open."""
        for acceptor in self._acceptors.values():
            acceptor.close()
        for listener in self._listeners.values():
            listener.close()
        self._acceptors.clear()
        self._listeners.clear()

    async def aclose(self, grace_seconds: float = 10.0) -> None:
        """Stop listening and serving. Requests in progress get `grace_seconds` to be answered and
        their responses to be sent; the rest is cut off. A client that does not read its responses
        is cut off earlier."""
        self.stop_listening()
        reactor = self._reactor
        for connection in list(reactor.connections):
            connection.drain()
        await self._wait_for_readers(grace_seconds)
        for connection in list(reactor.connections):
            connection.abort(Reason.STOPPED)
        await self._wait_until_empty(None)

    async def _wait_for_readers(self, seconds: float) -> None:
        reactor = self._reactor
        end = reactor.precise_now() + seconds
        before: dict[Connection, int] = {}
        while reactor.connections and (left := end - reactor.precise_now()) > 0:
            untaken = {each: each.untaken_bytes() for each in reactor.connections}
            for connection, size in untaken.items():
                if size and size == before.get(connection):
                    connection.cut_off_unread()
            before = untaken
            await self._wait_until_empty(min(left, UNREAD_SECONDS))

    async def _wait_until_empty(self, seconds: float | None) -> None:
        reactor = self._reactor
        if not reactor.connections:
            return
        emptied = asyncio.Event()
        reactor.on_empty = emptied.set
        try:
            async with asyncio.timeout(seconds):
                await emptied.wait()
        except TimeoutError:
            return
        finally:
            reactor.on_empty = None
