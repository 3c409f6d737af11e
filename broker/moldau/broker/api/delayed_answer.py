"""An answer that waits in the purgatory, at most as long as its connection lives.

Invariant: when a connection is gone, nothing of it waits any more. Otherwise one could ask for
bytes that never come, within the longest time there is, hang up, and do it again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from moldau.broker.replication.purgatory import Delayed

if TYPE_CHECKING:
    from moldau.broker.api.request import ApiRequest, Peer
    from moldau.broker.replication.purgatory import Purgatory
    from moldau.protocol.declare import Response


class Session:
    """What the handlers remember of one connection; its `session`."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[DelayedAnswer, None] = {}


class DelayedAnswer(Delayed):
    """Subclasses say when; they end with `answer`."""

    __slots__ = ("request",)

    def __init__(self, request: ApiRequest) -> None:
        self.request = request

    @property
    def is_gone(self) -> bool:
        return self.request.is_gone

    def wait(self, purgatory: Purgatory, keys: Iterable[Hashable], timeout_ms: int) -> None:
        """As `Purgatory.watch`, and not longer than the connection lives."""
        session_of(self.request.connection).waiting[self] = None
        purgatory.watch(self, keys, timeout_ms)

    def answer(self, response: Response) -> None:
        """Ends it."""
        session = self.request.connection.session
        if session is not None:
            session.waiting.pop(self, None)
        self.request.answer(response)


def session_of(connection: Peer) -> Session:
    """Made when somebody first asks for it: an idle connection costs none."""
    session = connection.session
    if session is None:
        session = connection.session = Session()
    assert isinstance(session, Session)
    return session


def end_session(connection: Peer, purgatory: Purgatory) -> None:
    """The connection is gone, and with it all who waited on it."""
    session = connection.session
    connection.session = None
    if session is not None:
        for operation in session.waiting:
            purgatory.cancel(operation)
