"""A request on its way to a service, and the interface of that service.

    def serve(self, request: Request) -> None:
        if request.arrival.key == FETCH:
            ...
            request.answer(response)        # now, or at any later moment

`serve` is called on the event loop, in the order of arrival, and must not block. It answers at
once, or keeps the request and answers later. Each request is answered exactly once. Responses are
sent in the order of the requests, whatever the order of the `answer` calls.

The bytes of a request lie in a buffer that the next read overwrites. If `serve` returns without an
answer, the request can no longer be decoded and views of it must not be used, unless `keep` was
called.

The requests of one connection take effect in the order in which they came, as in Kafka, which reads
no further request before the answer. Clients rely on it: a producer sends batches with consecutive
sequences, and an end of a transaction that the next one follows. Here the next request is served
while earlier ones wait for their answers only, such as a fetch for bytes or an appended batch for
replicas. A request that must wait *before* its effect calls `hold_order` within `serve`, and
`release_order` when it has taken effect. Further frames are put aside meanwhile; earlier answers
leave. Which requests wait so is written in `moldau.broker.api.ordering`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from moldau.broker.decision.context import RequestContext, shown_host
from moldau.broker.network.holds import ORDER
from moldau.protocol.connection import Arrival

if TYPE_CHECKING:
    from moldau.broker.network.shell import Connection
    from moldau.protocol.declare import Response
    from moldau.protocol.versions import Versions


Throttle: TypeAlias = "Callable[[Request, Response | None], int]"


class Request(Arrival):
    """One request, from its arrival to its response. `ServerConnection.receive` makes it and its
    `Connection` completes it. It is a single object, because every request pays for each object."""

    __slots__ = ("_kept_bytes", "connection")

    connection: Connection
    _kept_bytes: int

    @property
    def arrival(self) -> Arrival:
        """The key, the version and the client of the request."""
        return self

    @property
    def context(self) -> RequestContext:
        """The client, principal and listener of the request. It is made on first use, and kept by
        the connection: to compare it costs less than a place for it in each request."""
        at, client_id = self.connection, self.client_id or ""
        known = at.context
        if (
            known is None
            or known.version != self.version
            or known.client_id != client_id
            or known.principal is not at.principal
        ):
            known = at.context = RequestContext(
                client_id, shown_host(at.address), self.version, at.listener, at.principal
            )
        return known

    @property
    def size_bytes(self) -> int:
        """The size of the body; 0 once it is dropped."""
        return len(self.body or b"")

    @property
    def is_gone(self) -> bool:
        """Whether the connection is lost. An answer is not sent then, but does no harm."""
        return self.connection.is_lost

    def keep(self) -> None:
        """Keep the body until the answer. Call it within `serve` and before `decode`, because views
        of what was decoded earlier do not move."""
        if not self._kept_bytes:
            self._kept_bytes = self.connection.share.keep(self)

    def hold_order(self) -> None:
        """Serve no further request of the connection before this one takes effect: until
        `release_order`, its answer, or the end of the connection. Call it within `serve`. It does
        nothing if the request is answered, or holds the order already."""
        connection = self.connection
        if self.frame is None and connection.order_holder is not self and not connection.is_ending:
            assert connection.order_holder is None, "two requests are served at a time"
            connection.order_holder = self
            connection.holds.hold(ORDER, connection.acceptor.reactor.metrics)

    def release_order(self) -> None:
        """Note that the request has taken effect. It does nothing if it does not hold the order."""
        connection = self.connection
        if connection.order_holder is self:
            connection.order_holder = None
            connection.holds.let_go(ORDER)
            connection.wake()

    def answer(self, response: Response) -> None:
        """Send the response, after the responses to earlier requests."""
        connection = self.connection
        try:
            if not connection.is_lost:
                throttle = connection.throttle
                if throttle is not None and (wait_ms := throttle(self, response)) > 0:
                    self._mute(wait_ms, response)
                connection.send(connection.protocol.answer(self, response))
        finally:
            if connection.order_holder is self:
                self.release_order()
        self.body = None
        if self._kept_bytes:
            self._give_back()

    def answer_nothing(self) -> None:
        """Finish the request without a response (a produce with acks=0)."""
        connection = self.connection
        if not connection.is_lost:
            throttle = connection.throttle
            if throttle is not None and (wait_ms := throttle(self, None)) > 0:
                self._mute(wait_ms)
            connection.send(connection.protocol.answer_nothing(self))
        if connection.order_holder is self:
            self.release_order()
        self.body = None
        if self._kept_bytes:
            self._give_back()

    def release(self) -> None:
        """Drop the bytes, unless they were kept: `serve` has returned without an answer."""
        if not self._kept_bytes:
            self.body = None

    def _mute(self, wait_ms: int, response: Response | None = None) -> None:
        """Tell the client how long to wait, and read nothing from it meanwhile: an old client, or
        a hostile one, does not wait by itself."""
        if response is not None:
            response.throttle_time_ms = wait_ms  # type: ignore[attr-defined] # the common field
        connection = self.connection
        connection.acceptor.reactor.mute(connection, wait_ms / 1000)

    def _give_back(self) -> None:
        self.connection.share.give_back(self._kept_bytes)
        self._kept_bytes = 0

    def __repr__(self) -> str:
        return f"<Request {super().__repr__()} of {self.connection!r}>"


class Service(Protocol):
    """The service behind a listener."""

    @property
    def served(self) -> Mapping[int, Versions]:
        """The supported versions by API key. A request with any other key closes the connection."""
        ...

    @property
    def throttle(self) -> Throttle | None:
        """Called before each response is sent, and with None where a request gets none. Returns
        for how many milliseconds the client is to be throttled; 0 if it is within its quotas. None:
        there are no quotas."""
        ...

    def opened(self, connection: Connection) -> None:
        """Called when a connection was admitted. The service may use its `session`."""
        ...

    def serve(self, request: Request) -> None:
        """Serve a request."""
        ...

    def closed(self, connection: Connection) -> None:
        """Called when the connection has ended, with all its unanswered requests."""
        ...
