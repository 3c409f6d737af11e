"""A connection before its TLS handshake: it has its place among the limits from the accept on.

Invariants: a place is counted once, from `ask` to `leave`, or to `lost` of the connection
that takes it over. A handshake begins when its place is admitted, and no sooner: the limits on
numbers and rates are limits on handshakes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moldau.broker.network.limits import Verdict, plain_address

if TYPE_CHECKING:
    from moldau.broker.network.acceptor import Acceptor
    from moldau.broker.network.shell import Connection
    from moldau.runtime.tls import TlsTransport

_WAIT_SECONDS_MAX: Final = 30.0
"""How long a connection waits in line before its handshake. Nothing is read meanwhile, so a dead
one keeps its place until then; clients give up sooner."""


class Arriving:
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
