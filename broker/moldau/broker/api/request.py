"""A request as a handler sees it. It may come from a listener, a test or another node.

    def serve(node: Node, request: ApiRequest) -> None:
        message = request.decode()
        ...
        request.answer(response)

Invariants: a request is answered exactly once, now or later. A handler that answers later calls
`keep` before `decode`, or copies what it needs: the bytes are overwritten after `serve` has
returned. Requests of a connection take effect in the order in which they came, see `ordering`.

A Protocol and not a class, because api and network are neighbours that do not import each other.
`moldau.broker.network.Request` satisfies it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.decision.context import Principal, RequestContext
    from moldau.protocol.declare import Request as Message
    from moldau.protocol.declare import Response


class Header(Protocol):
    """The header of the request."""

    key: int
    version: int
    client_id: str | None


class Peer(Protocol):
    """The connection that a request came through."""

    listener: str
    """The name of the listener, such as "PLAINTEXT"."""
    address: str
    peer_port: int
    principal: Principal
    """The principal that the connection was authenticated as."""
    software: tuple[str, str]
    """The name and version of the client's software, as its ApiVersions has said; or empty."""
    session: Any
    """The handlers' own state for the connection, see `delayed_answer`. None at first."""
    grants: Any
    """Rights that earlier requests were found to have, see `rights.grants`. None at first."""

    def close(self) -> None:
        """Send the answers given so far, then close. The current request then needs no answer."""
        ...


class ApiRequest(Protocol):
    """One request, from its arrival to its answer."""

    @property
    def arrival(self) -> Header:
        """The API key, the version and the client id."""
        ...

    @property
    def connection(self) -> Peer:
        """The connection that the request came through."""
        ...

    @property
    def body(self) -> Any:
        """The bytes of the message within `serve`. None if a gate has changed the message, so that
        only `decode` returns it."""
        ...

    @property
    def context(self) -> RequestContext:
        """The client, principal and listener. It is made on first use, because most requests are a
        produce or a fetch, which need none."""
        ...

    @property
    def size_bytes(self) -> int:
        """The size of the message while it is served."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether the client is gone and reads no answer. Answering is still allowed."""
        ...

    def decode(self) -> Message:
        """Return the decoded message. A handler need not catch MalformedMessage: it closes the
        connection."""
        ...

    def keep(self) -> None:
        """Keep the bytes until the answer. Must be called before `decode`, within `serve`."""
        ...

    def hold_order(self) -> None:
        """Serve no further request of the connection before this one takes effect: until
        `release_order`, its answer, or the end of the connection. Must be called within `serve`. It
        does nothing if the request is answered."""
        ...

    def release_order(self) -> None:
        """Note that the request has taken effect. It does nothing if it does not hold the order."""
        ...

    def answer(self, response: Response) -> None:
        """Send the response, after those of earlier requests of the connection."""
        ...

    def answer_nothing(self) -> None:
        """Complete the request without a response (a produce with acks=0)."""
        ...


Handler: TypeAlias = "Callable[[Node, ApiRequest], None]"

Throttle: TypeAlias = "Callable[[ApiRequest, Response | None], int]"
"""Returns how many milliseconds the client must wait after this response; None: it gets none."""
