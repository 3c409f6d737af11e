"""A response that waits in the purgatory, at most as long as its connection lives.

Invariant: when a connection is gone, none of its requests waits any more. Otherwise a client could
ask for bytes that never come, with the longest allowed wait, disconnect, and repeat this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from moldau.broker.replication.purgatory import DelayedOperation

if TYPE_CHECKING:
    from moldau.broker.api.request import ApiRequest, Peer
    from moldau.broker.replication.purgatory import Purgatory
    from moldau.protocol.declare import Response


class Session:
    """The handlers' state for one connection. It is stored in the connection's `session`."""

    __slots__ = ("has_metadata", "waiting")

    def __init__(self) -> None:
        self.has_metadata = False
        """Whether the client has got metadata on the connection."""
        self.waiting: dict[DelayedAnswer, None] = {}


class DelayedAnswer(DelayedOperation):
    """A response that waits. A subclass decides when it is ready and then calls `answer`."""

    __slots__ = ("request",)

    def __init__(self, request: ApiRequest) -> None:
        self.request = request

    @property
    def is_gone(self) -> bool:
        return self.request.is_gone

    def wait(self, purgatory: Purgatory, keys: Iterable[Hashable], timeout_ms: int) -> None:
        """Wait like `Purgatory.watch`, but no longer than the connection lives."""
        session_of(self.request.connection).waiting[self] = None
        purgatory.watch(self, keys, timeout_ms)

    def answer(self, response: Response) -> None:
        """End the wait and send the response."""
        session = self.request.connection.session
        if session is not None:
            session.waiting.pop(self, None)
        self.request.answer(response)


def session_of(connection: Peer) -> Session:
    """Return the session of the connection. First use creates it: an idle connection has none."""
    session = connection.session
    if session is None:
        session = connection.session = Session()
    assert isinstance(session, Session)
    return session


def end_session(connection: Peer, purgatory: Purgatory) -> None:
    """Cancel all waiting responses of a closed connection."""
    session = connection.session
    connection.session = None
    if session is not None:
        for operation in session.waiting:
            purgatory.cancel(operation)
