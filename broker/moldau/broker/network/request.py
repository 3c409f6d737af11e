"""A request in the hands of whoever serves it, and the interface of that service.

    def serve(self, request: Request) -> None:
        if request.arrival.key == FETCH:
            ...
            request.answer(response)        # now, or at any later moment

`serve` is called on the event loop, in the order of arrival, and must not block. It answers at once
or keeps the request and answers later; each request is answered exactly once. Answers leave in the
order of the requests, whatever the order they were given in.

A request's bytes lie in a buffer that the next read overwrites. So what is not answered when
`serve` returns can no longer be decoded, and views of it must be let go, unless `keep` was called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from moldau.protocol.connection import Arrival
from moldau.protocol.limits import DECODE_BUDGET

if TYPE_CHECKING:
    from moldau.broker.network.shell import Connection
    from moldau.protocol.declare import Request as Message
    from moldau.protocol.declare import Response
    from moldau.protocol.versions import Versions


class Request(Arrival):
    """One request, from its arrival to its answer. Made by `ServerConnection.receive`, finished by
    the `Connection` that it came through: one object, because every request pays for each."""

    __slots__ = ("_kept_bytes", "connection")

    connection: Connection
    _kept_bytes: int

    @property
    def arrival(self) -> Arrival:
        """Key, version and who sent it."""
        return self

    @property
    def is_gone(self) -> bool:
        """Nobody will read the answer any more; giving it does no harm."""
        return self.connection.is_lost

    def decode(self, budget: int = DECODE_BUDGET) -> Message:
        """The message. MalformedMessage may be let through: the connection is closed for it."""
        assert self.body is not None, "decoded after `serve` returned, and not kept"
        return Arrival.decode(self, budget)

    def keep(self) -> None:
        """Lets the body live until the answer. To be called before `decode` and within `serve`:
        views of what was decoded earlier do not move."""
        if not self._kept_bytes:
            self._kept_bytes = self.connection.keep(self)

    def answer(self, response: Response) -> None:
        """Sends the answer, when it is its turn."""
        connection = self.connection
        if not connection.is_lost:
            connection.send(connection.protocol.answer(self, response))
        self.body = None
        if self._kept_bytes:
            self._give_back()

    def answer_nothing(self) -> None:
        """The request gets no answer (a produce with acks=0)."""
        connection = self.connection
        if not connection.is_lost:
            connection.send(connection.protocol.answer_nothing(self))
        self.body = None
        if self._kept_bytes:
            self._give_back()

    def release(self) -> None:
        """`serve` has returned without an answer: the bytes are gone unless they were kept."""
        if not self._kept_bytes:
            self.body = None

    def _give_back(self) -> None:
        self.connection.give_back(self._kept_bytes)
        self._kept_bytes = 0

    def __repr__(self) -> str:
        return f"<Request {super().__repr__()} of {self.connection!r}>"


class Service(Protocol):
    """What stands behind a listener."""

    @property
    def served(self) -> Mapping[int, Versions]:
        """The versions that are served, by API key. What is missing closes the connection."""
        ...

    def opened(self, connection: Connection) -> None:
        """A connection was admitted. Its `session` is the service's to use."""
        ...

    def serve(self, request: Request) -> None:
        """A request came."""
        ...

    def closed(self, connection: Connection) -> None:
        """The connection is gone, with all requests that were not answered."""
        ...
