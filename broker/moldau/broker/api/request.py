"""A request as a handler sees it, whatever brought it: a listener, a test, another node.

    def serve(node: Node, request: ApiRequest) -> None:
        message = request.decode()
        ...
        request.answer(response)

Invariants: a request is answered exactly once, now or later. Whoever answers later calls `keep`
before `decode`, or copies what he needs: the bytes are overwritten when `serve` has returned.

A Protocol and not a class, because api and network are neighbours that do not import each other;
`moldau.broker.network.Request` is one of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.protocol.declare import Request as Message
    from moldau.protocol.declare import Response


class Header(Protocol):
    """What stands before the message."""

    key: int
    version: int
    client_id: str | None


class Peer(Protocol):
    """The connection that a request came through."""

    listener: str
    """The name of the listener, such as "PLAINTEXT"."""
    address: str
    peer_port: int
    session: Any
    """For handlers: what they remember of the connection, see `delayed_answer`. None at first."""

    def close(self) -> None:
        """Sends what was answered so far, and closes. The request itself needs no answer then."""
        ...


class ApiRequest(Protocol):
    """One request, from its arrival to its answer."""

    @property
    def arrival(self) -> Header:
        """Key, version and who sent it."""
        ...

    @property
    def connection(self) -> Peer:
        """Where it came from."""
        ...

    @property
    def is_gone(self) -> bool:
        """Nobody will read the answer any more; giving it does no harm."""
        ...

    def decode(self) -> Message:
        """The message. MalformedMessage may be let through: the connection is closed for it."""
        ...

    def keep(self) -> None:
        """Lets the bytes live until the answer; to be called before `decode`, within `serve`."""
        ...

    def answer(self, response: Response) -> None:
        """Sends the answer, when it is its turn."""
        ...

    def answer_nothing(self) -> None:
        """The request gets no answer (a produce with acks=0)."""
        ...


Handler: TypeAlias = "Callable[[Node, ApiRequest], None]"
