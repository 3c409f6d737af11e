"""The acceptor of one listener: creates connections, and admits, queues or rejects them.

Invariants: `ConnectionLimits` counts exactly the open connections, from the accept to `lost`, with
those with a TLS handshake under way. A closed acceptor admits nothing.
`opened` and `closed` of the service come in pairs, and only for admitted connections. When a
connection ends, waiting connections are admitted as far as there is room, at any listener; those
that their clients have ended meanwhile are closed instead.

A connection before its TLS handshake: it has its place among the limits from the accept on.

Invariants: a place is counted once, from `ask` to `leave`, or to `lost` of the connection
that takes it over. A handshake begins when its place is admitted, and no sooner: the limits on
numbers and rates are limits on handshakes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.decision.context import Principal
from moldau.broker.network.holds import IN_LINE
from moldau.broker.network.limits import ConnectionLimits, Verdict, plain_address
from moldau.broker.network.login import LoginService
from moldau.broker.network.metrics import ListenerMetrics
from moldau.broker.network.reason import Reason
from moldau.broker.network.sender import CHUNK_BYTES
from moldau.broker.network.shell import Connection
from moldau.broker.security.mapping import NoRuleApplies
from moldau.errors import MalformedMessage
from moldau.runtime.direct import has_ended, set_buffer_sizes
from moldau.runtime.tls import ADMISSION

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.network.direct import OpenDirect
    from moldau.broker.network.options import ListenerOptions
    from moldau.broker.network.reactor import Reactor
    from moldau.broker.network.request import Service
    from moldau.runtime.tls import TlsTransport

_WAIT_SECONDS_MAX: Final = 30.0
"""How long a connection waits in line before its handshake. Nothing is read meanwhile, so a dead
one keeps its place until then; clients give up sooner."""


class NewConnection:
    """The place of a connection until its handshake ends. Satisfies `Guest` and `Admission`."""

    __slots__ = ("_is_counted", "_transport", "acceptor", "address", "is_admitted", "listener")

    def __init__(self, acceptor: Acceptor, transport: TlsTransport) -> None:
        peer = transport.get_extra_info("peername")
        self.acceptor = acceptor
        self.listener = acceptor.options.name
        self.address = plain_address(str(peer[0])) if isinstance(peer, tuple) else ""
        self.is_admitted = False
        self._transport = transport
        self._is_counted = False

    def ask(self) -> Verdict:
        """Ask for a place. If it is free, the handshake begins."""
        verdict = self.acceptor.entrance.arrive(self)
        self._is_counted = verdict in (Verdict.ADMITTED, Verdict.WAITING)
        if verdict is Verdict.ADMITTED:
            self._transport.begin()
        else:
            self._transport.wait(min(self.acceptor.reactor.idle_seconds, _WAIT_SECONDS_MAX))
        return verdict

    def begin(self) -> None:
        """Begin the handshake: the place was in line, and is admitted."""
        self.acceptor.count()
        self._transport.begin()

    def transport_info(self, name: str) -> Any:
        """Return what the transport knows, or None."""
        return self._transport.get_extra_info(name)

    def give_up(self) -> None:
        """Close without a handshake: the client has ended the connection, and the place is free."""
        self._is_counted = False
        self.acceptor.count()
        self._transport.abort()

    def refuse(self) -> None:
        """Close without a handshake."""
        self._transport.abort()

    def hand_over(self, connection: Connection) -> None:
        """Give the place to the connection, after the handshake."""
        assert self._is_counted, "the place is free already"
        assert self.is_admitted, "a handshake ended that had not begun"
        self._is_counted = False
        self.is_admitted = False
        connection.is_admitted = True

    def leave(self) -> None:
        """Give the place back, unless a connection has it."""
        if self._is_counted:
            self._is_counted = False
            self.acceptor.entrance.leave(self)
            self.acceptor.count()


Buggify = Callable[[str], bool]
BUGGY_CHUNK_BYTES = 100
HELD_SECONDS = 1.0

_TURNED_AWAY = {
    Verdict.FILES_FULL: Reason.FILES_FULL,
    Verdict.ADDRESS_FULL: Reason.ADDRESS_FULL,
    Verdict.ADDRESS_FAST: Reason.ADDRESS_FAST,
    Verdict.LINE_FULL: Reason.LINE_FULL,
}


class Entrance:
    """Admits the connections of all listeners."""

    def __init__(
        self,
        reactor: Reactor,
        open_direct: OpenDirect | None,
        room: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.reactor = reactor
        self.open_direct = open_direct
        self.limits: ConnectionLimits[Connection | NewConnection] = ConnectionLimits(
            reactor.options, room
        )
        self._is_timed = False

    def arrive(self, connection: Connection | NewConnection) -> Verdict:
        """Decide on a new connection. A waiting one is admitted later."""
        now = self.reactor.precise_now()
        verdict = self.limits.arrive(connection, now)
        if verdict is Verdict.WAITING:
            self._wait_for_time(now)
        elif verdict is Verdict.ADMITTED and not isinstance(connection, NewConnection):
            self.make_room_for(connection)
        return verdict

    def make_room_for(self, connection: Connection) -> None:
        """Close another connection if this one is of a protected listener and the node is full. A
        handshake makes nothing close: any client can begin one."""
        if self.limits.must_yield and self.limits.is_protected(connection.listener):
            self._make_room()

    def leave(self, connection: Connection | NewConnection) -> None:
        """Forget a connection that has ended, and admit waiting ones."""
        self.limits.leave(connection)
        self.let_in()

    def let_in(self) -> None:
        """Admit the waiting connections that have room now."""
        now = self.reactor.precise_now()
        for connection in self.limits.enter(now, _has_ended):
            if not connection.is_admitted:
                _give_up(connection)
            elif isinstance(connection, NewConnection):
                connection.begin()
            else:
                connection.acceptor.let_in(connection)
        self._wait_for_time(now)

    def _wait_for_time(self, now: float) -> None:
        """Start a timer if only the rate limit keeps a waiting connection out."""
        wait = self.limits.wait(now)
        if wait is not None and not self._is_timed:
            self._is_timed = True
            self.reactor.call_later(wait, self._on_time)

    def _on_time(self) -> None:
        self._is_timed = False
        self.let_in()

    def _make_room(self) -> None:
        """Close the connection that has been inactive for the longest, among those of unprotected
        listeners."""
        limits = self.limits
        yielding = [
            each
            for each in self.reactor.connections
            if each.is_admitted and not each.is_ending and not limits.is_protected(each.listener)
        ]
        if yielding:
            oldest = min(yielding, key=lambda each: each.last_active)
            oldest.abort(Reason.MADE_ROOM)


def _has_ended(connection: Connection | NewConnection) -> bool:
    return has_ended(connection.transport_info("socket"))


def _give_up(connection: Connection | NewConnection) -> None:
    """Close a connection that waited in line, and is out of it."""
    if isinstance(connection, NewConnection):
        connection.give_up()
    else:
        connection.is_in_line = False
        connection.abort(Reason.PEER)


class Acceptor:
    """The acceptor of one listener."""

    def __init__(
        self, entrance: Entrance, options: ListenerOptions, service: Service, buggify: Buggify
    ) -> None:
        """`buggify` is the runtime's."""
        self.reactor = entrance.reactor
        self.options = options
        self.open_direct = entrance.open_direct
        self.service = service if options.login is None else LoginService(service, options.login)
        self.frame_bytes_max = (
            options.request_bytes_max if options.login is None else options.login.receive_bytes_max
        )
        """The longest request of a new connection."""
        self.metrics = ListenerMetrics(entrance.reactor.metrics, options.name)
        self.entrance = entrance
        self._is_closed = False
        self._limits = entrance.limits
        self._buggify = buggify

    def __call__(self) -> Connection:
        """Create the protocol of a connection that the event loop accepts."""
        return Connection(self)

    def prepare(self, transport: asyncio.Transport) -> None:
        """Set the socket's buffer sizes as the listener's options say."""
        options = self.options
        if options.send_buffer_bytes is not None or options.receive_buffer_bytes is not None:
            set_buffer_sizes(transport, options.send_buffer_bytes, options.receive_buffer_bytes)

    def chunk_bytes(self) -> int:
        """Return how many bytes of a response a connection writes at once."""
        return BUGGY_CHUNK_BYTES if self._buggify("network.small_chunks") else CHUNK_BYTES

    def in_flight_max(self) -> int:
        """Return how many requests of a connection may wait for their responses."""
        if self._buggify("network.one_in_flight"):
            return 1
        return self.reactor.options.in_flight_max

    def arrived(self, connection: Connection) -> None:
        """Admit a new connection, queue it, or reject it."""
        connection.address = plain_address(connection.address)
        self.reactor.add(connection)
        if self._is_closed:
            connection.abort(Reason.STOPPED)
            return
        arriving: NewConnection | None = connection.transport_info(ADMISSION)
        if arriving is not None:
            arriving.hand_over(connection)
            self.entrance.make_room_for(connection)
            self.let_in(connection)
            return
        verdict = self.entrance.arrive(connection)
        if verdict is Verdict.ADMITTED:
            self.let_in(connection)
        elif verdict is Verdict.WAITING:
            connection.is_in_line = True
            connection.holds.hold(IN_LINE, self.reactor.metrics)
        else:
            reason = _TURNED_AWAY[verdict]
            self._warn(reason, f"{connection.address}:{connection.peer_port}")
            if verdict is Verdict.ADDRESS_FAST and self._holds_rejected():
                connection.holds.hold(IN_LINE, self.reactor.metrics)  # it is not read
                self._end_later(partial(connection.abort, reason))
            else:
                connection.abort(reason)
        self.count()

    def before_handshake(self, transport: TlsTransport) -> NewConnection:
        """Give a connection its place before its handshake, put it in line, or reject it."""
        arriving = NewConnection(self, transport)
        if self._is_closed:
            arriving.refuse()
            return arriving
        verdict = arriving.ask()
        if verdict not in (Verdict.ADMITTED, Verdict.WAITING):
            self._warn(_TURNED_AWAY[verdict], arriving.address)
            if verdict is Verdict.ADDRESS_FAST and self._holds_rejected():
                self._end_later(arriving.refuse)
            else:
                arriving.refuse()
        self.count()
        return arriving

    def close(self) -> None:
        """Admit nothing from now on: the listener is closed."""
        self._is_closed = True

    def _warn(self, reason: Reason, peer: str) -> None:
        self.reactor.warn(
            f"turns a connection away: {reason.value}", listener=self.options.name, peer=peer
        )

    def _holds_rejected(self) -> bool:
        """Whether a rejected connection ends later, so that its client cannot open the next one at
        once."""
        return self._limits.hold(is_protected=self.options.is_protected)

    def _end_later(self, end: Callable[[], object]) -> None:
        """End a rejected connection that is held, after a moment."""
        is_protected = self.options.is_protected

        def end_held() -> None:
            self._limits.release(is_protected=is_protected)
            end()

        self.reactor.call_later(HELD_SECONDS, end_held)

    def let_in(self, connection: Connection) -> None:
        """Start to serve an admitted connection."""
        connection.is_in_line = False
        if self.options.principal_of is not None:
            self._identify(connection, self.options.principal_of)
        self.count()
        self.metrics.opened.value += 1
        connection.enter()

    def _identify(self, connection: Connection, principal_of: Callable[[bytes], str]) -> None:
        """Give the connection the principal of the client's certificate, if it has one."""
        certificate = connection.transport_info("peercert")
        if not isinstance(certificate, bytes):
            return
        try:
            connection.principal = Principal("User", principal_of(certificate))
        except (MalformedMessage, NoRuleApplies) as error:
            self.reactor.warn(
                f"closes connection: {Reason.NO_PRINCIPAL.value}",
                why=str(error),
                **connection.facts(),
            )
            connection.abort(Reason.NO_PRINCIPAL)

    def lost(self, connection: Connection, reason: Reason) -> None:
        """Forget a connection that has ended."""
        self.reactor.remove(connection)
        self.reactor.metrics.closed.bind(self.options.name, reason.label).value += 1
        was_admitted = connection.is_admitted
        if was_admitted or connection.is_in_line:
            self.entrance.leave(connection)
        self.count()
        if was_admitted:
            self.service.closed(connection)

    def count(self) -> None:
        """Show the numbers of connections."""
        self.metrics.active.value = self._limits.admitted(self.options.name)
        self.metrics.waiting.value = self._limits.waiting(self.options.name)
