"""One connection: bytes in, requests to the service, responses out, and backpressure both ways.

A read yields frames. Each frame goes to the service at once, and responses given meanwhile leave in
one write. Reading stops while there is a hold. Frames that were read by then are put aside, and
served first when reading continues. Writing goes as far as the transport takes it.

Invariants: requests are served in the order of arrival, one at a time: a request that waits before
it takes effect holds the order, and frames behind it are put aside until then. After `is_ending`
nothing of the connection is served; responses that are unsent then are sent before it closes. After
`connection_lost` nothing happens any more. The request memory that the connection holds is given
back then.

Why the service is called inside `buffer_updated`: a task, queue or thread for each request costs a
third to three quarters of the throughput.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from moldau.broker.decision.context import ANONYMOUS, Principal, RequestContext
from moldau.broker.network.holds import BUSY, IN_LINE, MEMORY, ORDER, THROTTLED, Holds
from moldau.broker.network.idle import NO_SLOT
from moldau.broker.network.outbox import Part
from moldau.broker.network.reason import Reason
from moldau.broker.network.request import Request
from moldau.broker.network.sender import Sender
from moldau.broker.network.share import RequestShare
from moldau.errors import MalformedMessage
from moldau.protocol.connection import Arrival, Problem, ServerConnection
from moldau.protocol.framing import FrameReader
from moldau.protocol.headers import API_VERSIONS
from moldau.protocol.messages import API
from moldau.runtime.direct import untaken_bytes

if TYPE_CHECKING:
    from moldau.broker.network.acceptor import Acceptor


_TLS_HANDSHAKE = 0x1603
"""The type and the major version of a TLS record."""


class Connection(asyncio.BufferedProtocol):
    """The server's end of a connection."""

    __slots__ = (
        "__weakref__",
        "_in_flight_max",
        "_in_turn",
        "_is_draining",
        "_is_woken",
        "_reactor",
        "_reason",
        "_received_bytes",
        "_requests",
        "_sender",
        "_transport",
        "_unsent_before",
        "acceptor",
        "address",
        "context",
        "frames",
        "grants",
        "holds",
        "idle_slot",
        "is_admitted",
        "is_ending",
        "is_in_line",
        "is_lost",
        "last_active",
        "listener",
        "login",
        "order_holder",
        "peer_port",
        "principal",
        "protocol",
        "service",
        "session",
        "share",
        "software",
        "throttle",
    )

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor
        self._reactor = acceptor.reactor
        self.service = acceptor.service
        """Changes when the client has logged in."""
        self._received_bytes = acceptor.metrics.received_bytes
        self._requests = acceptor.metrics.requests
        self.frames = FrameReader(
            acceptor.reactor.buffer, acceptor.frame_bytes_max, acceptor.reactor.tenancy
        )
        self._sender = Sender(
            acceptor.reactor, acceptor.metrics.sent_bytes, acceptor.chunk_bytes(), self.wake
        )
        self._transport: asyncio.Transport | None = None
        self.holds = Holds()
        self.share = RequestShare(acceptor.reactor)
        self.order_holder: Request | None = None
        """The request that must take effect before the next one is served."""
        self._unsent_before = 0
        self._in_flight_max = acceptor.in_flight_max()
        self._in_turn = False
        self._is_draining = False
        self._is_woken = False
        self._reason: Reason | None = None
        self.protocol = ServerConnection(acceptor.service.served, Request)
        self.throttle = acceptor.service.throttle
        self.listener = acceptor.options.name
        self.address = ""
        self.peer_port = 0
        self.idle_slot = NO_SLOT
        self.is_admitted = False
        self.is_in_line = False
        self.is_ending = False
        self.is_lost = False
        self.last_active = 0.0
        self.principal: Principal = ANONYMOUS
        self.context: RequestContext | None = None
        """The context of an earlier request: the next one mostly has the same."""
        self.grants: Any = None
        """Rights that earlier requests were found to have, kept by the service."""
        self.login: Any = None
        """The state of the login, where the listener has one."""
        # The service's own state for the connection.
        self.session: Any = None
        self.software = ("", "")

    def __repr__(self) -> str:
        return f"<Connection {self.listener} {self.address}:{self.peer_port}>"

    # For the service.

    def close(self, reason: Reason = Reason.SERVICE) -> None:
        """Serve nothing more, send the responses, and close."""
        if self.is_ending:
            return
        self.is_ending = True
        self.holds.end()
        self._reason = reason
        self.share.forget_requests(self)
        if not self._in_turn:
            self._flush()

    def abort(self, reason: Reason) -> None:
        """Close at once. Unsent bytes are lost."""
        self.is_ending = True
        self.holds.end()
        self._reason = self._reason or reason
        self.share.forget_requests(self)
        self._sender.outbox.clear()
        if self._transport is not None:
            self._transport.abort()

    def stop_serving(self) -> None:
        """Serve and read nothing more. What is answered later still leaves."""
        self._is_draining = True
        self.holds.hold(BUSY, self._reactor.metrics)
        self.share.forget_requests(self)

    def transport_info(self, name: str) -> Any:
        """Return what the transport knows, such as `peercert` under TLS, or None."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    def send(self, parts: Iterable[Part]) -> None:
        """Add parts of responses behind everything that waits to be written."""
        if self.is_ending:
            return
        outbox = self._sender.outbox
        outbox.add(parts)
        if self._in_turn:
            return
        if outbox.held_bytes > self._reactor.options.unsent_bytes_max:
            self.cut_off_unread()
        elif not self._is_woken:
            self.wake()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Prepare the open connection. The acceptor decides whether to admit it."""
        self._transport = cast(asyncio.Transport, transport)
        self.holds.start(self._transport)
        self.acceptor.prepare(self._transport)
        self._sender.start(self._transport, self.acceptor.open_direct)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.address, self.peer_port = str(peer[0]), int(peer[1])
        self.acceptor.arrived(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes: the shared one, or a large frame's."""
        return self.frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve the frames in the `nbytes` that were read into the buffer."""
        self.last_active = self._reactor.now
        self._received_bytes.value += nbytes
        if self._reason is not None:
            return
        holds, share = self.holds, self.share
        unfinished = share.unfinished_bytes + nbytes
        sender, unanswered = self._sender, self.protocol.unanswered
        outbox, unsent_max = sender.outbox, self._reactor.options.unsent_bytes_pause
        self._in_turn = True
        try:
            for frame in self.frames.received(nbytes):
                unfinished -= 4 + len(frame)
                if self.is_ending:
                    return
                # Without a hold it is neither in line nor draining; the rest is `_is_busy`.
                if (
                    holds.bits
                    or sender.is_blocked
                    or len(unanswered) >= self._in_flight_max
                    or outbox.size >= unsent_max
                    or share.aside
                ) and (share.aside or self._is_busy()):
                    share.put_aside(frame)
                else:
                    self._serve(frame)
            if unfinished or share.unfinished_bytes:
                share.hold_unfinished(self, unfinished, nbytes)
                self._ask_for_memory()
        except MalformedMessage as error:
            self._refuse(error)
        finally:
            self._in_turn = False
            self._end_turn()

    def pause_writing(self) -> None:
        """Stop writing: the transport has enough to send."""
        self._sender.is_blocked = True

    def resume_writing(self) -> None:
        """Continue writing in the next turn, not now: the transport is in the middle of sending."""
        self._sender.is_blocked = False
        self.last_active = self._reactor.now
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything: the connection has ended."""
        self.is_lost = self.is_ending = True
        self.order_holder = None
        self._sender.stop()
        self.holds.stop()
        self.share.end(self)
        self.acceptor.lost(self, self._reason or Reason.PEER)
        self._transport = None

    # For the acceptor and the reactor.

    def enter(self) -> None:
        """Start to serve the connection, which is admitted."""
        self.service.opened(self)
        self.holds.let_go(IN_LINE)
        if self.share.aside:
            self.wake()

    def take_turn(self) -> None:
        """Write responses, serve the frames put aside, and continue reading if possible."""
        self._is_woken = False
        if self.is_lost:
            return
        self._flush()
        if self._flows():
            return
        while self.share.aside and not self._is_busy():
            self._serve_aside()
            self._flush()
        if self._is_draining and not self.protocol.waiting:
            self.close(Reason.STOPPED)
        self._consider_reading()

    def drain(self) -> None:
        """Serve nothing more. Close when all requests in progress are answered and the responses
        sent."""
        if self.protocol.waiting:
            self.stop_serving()
        else:
            self.close(Reason.STOPPED)

    def when_idle(self, idle_seconds: float) -> float:
        """Return the time when the connection will be idle if nothing happens until then."""
        unsent = self._sender.unsent_bytes
        if unsent != self._unsent_before or (self.protocol.waiting and not unsent):
            self._unsent_before = unsent
            self.last_active = self._reactor.now
        return self.last_active + idle_seconds

    def end_idle(self) -> None:
        """Close an idle connection. Bytes that were unsent for all that time are dropped."""
        if self._sender.unsent_bytes:
            self.cut_off_unread()
        elif self.is_ending:
            self.abort(Reason.IDLE)
        else:
            self._reactor.log.debug("closes idle connection", **self.facts())
            self.close(Reason.IDLE)

    def untaken_bytes(self) -> int:
        """Return the response bytes that are unsent here and that the peer has not taken yet. It is
        0 if none are unsent here."""
        unsent = self._sender.unsent_bytes
        if not unsent or self._transport is None:
            return unsent
        # A socket's send buffer is large and rarely requests more: a slow reader takes long to
        # empty it.
        return unsent + untaken_bytes(self._transport)

    def cut_off_unread(self) -> None:
        """Cut the connection off because the peer does not read its responses."""
        self._cut_off("client does not read its answers", Reason.SLOW_READER)

    def on_memory(self) -> None:
        """Continue reading: there is memory for the rest of the request."""
        self.holds.let_go(MEMORY)

    def on_shortage(self, since: float) -> None:
        """Abort the connection if it has received nothing since the given time: others wait for its
        memory."""
        if self.last_active <= since and not self.holds.bits:
            self._cut_off("memory is short and a request does not end", Reason.STALLED_REQUEST)

    # Serving.

    def _serve(self, frame: Any) -> None:
        request: Request = self.protocol.receive(frame)  # type: ignore[assignment] # it makes those
        if request.problem is not None:
            self._answer_problem(request)
            return
        self._requests.value += 1
        request.connection = self
        request._kept_bytes = 0
        self.service.serve(request)
        if request.frame is None:
            request.release()

    def _serve_aside(self) -> None:
        """Serve the frames that were put aside, as far as possible."""
        is_fine, share = False, self.share
        self._in_turn = True
        try:
            while share.aside and not self._is_busy():
                self._serve(share.take_aside(share.aside))
            is_fine = True
        except MalformedMessage as error:
            self._refuse(error)
            is_fine = True
        finally:
            self._in_turn = False
            if not is_fine:
                # Close it here: no transport called this, so no other code would close it.
                self.abort(Reason.FAILED)

    def _answer_problem(self, arrival: Arrival) -> None:
        """Answer an ApiVersions request of a newer version with the supported versions. For any
        other problem, close the connection."""
        if arrival.problem is Problem.UNSUPPORTED_VERSION and arrival.key == API_VERSIONS:
            self.send(self.protocol.answer_unsupported_api_versions(arrival))
            return
        is_unknown = arrival.problem is Problem.UNKNOWN_API
        if (
            is_unknown
            and self.login is not None
            and self.protocol.served is self.acceptor.service.served
        ):
            self._reactor.warn(
                f"closes connection: {Reason.NO_LOGIN.value}",
                api=_described(arrival),
                **self.facts(),
            )
            self.close(Reason.NO_LOGIN)
            return
        reason = Reason.UNKNOWN_API if is_unknown else Reason.UNSUPPORTED_VERSION
        facts = {
            "api": _described(arrival),
            "version": arrival.version,
            "client": arrival.client_id,
        }
        self._reactor.warn(f"closes connection: {reason.value}", **facts, **self.facts())
        self.close(reason)

    def _refuse(self, error: MalformedMessage) -> None:
        if is_tls_hello(error.context.get("size")):
            self._reactor.warn("closes connection: TLS on a listener without TLS", **self.facts())
            self.close(Reason.MALFORMED)
            return
        self._reactor.warn(
            "closes connection: " + error.reason, **{**error.context, **self.facts()}
        )
        self.close(Reason.MALFORMED)

    def _is_busy(self) -> bool:
        """Whether the next request must wait for responses to earlier ones, or for the peer to
        read."""
        return (
            self._sender.is_blocked
            or self.holds.bits & (IN_LINE | THROTTLED | ORDER) != 0
            or len(self.protocol.unanswered) >= self._in_flight_max
            or self._sender.outbox.size >= self._reactor.options.unsent_bytes_pause
            or self._is_draining
        )

    def _flows(self) -> bool:
        """Whether nothing prevents the next read: no hold (a draining connection has one), no frame
        aside, nothing unsent, and room for another request in progress."""
        sender = self._sender
        return not (
            self.holds.bits
            or sender.is_blocked
            or sender.outbox.size
            or self.share.aside
            or len(self.protocol.unanswered) >= self._in_flight_max
        )

    # Reading and writing.

    def _ask_for_memory(self) -> None:
        """Stop reading if memory is short and others must finish their requests first."""
        if self.share.must_stop(self):
            self.holds.hold(MEMORY, self._reactor.metrics)

    def _end_turn(self) -> None:
        if self._sender.outbox.size or self.is_ending:
            self._flush()
        if self._flows():
            return
        if self.share.aside and not self._is_busy():
            # The write made room at once. Other connections have their turn first.
            self.wake()
        self._consider_reading()

    def wake(self) -> None:
        """Take a turn soon."""
        if not self._is_woken:
            self._is_woken = True
            self._reactor.wake(self)

    def _consider_reading(self) -> None:
        holds = self.holds
        if holds.bits & IN_LINE:
            # uvloop starts to read after `connection_made`, even if reading was paused there.
            holds.pause()
        elif self.share.aside or self._is_busy():
            if not holds.bits & BUSY:
                holds.hold(BUSY, self._reactor.metrics)
                # It waits for its own responses, so other connections get the memory.
                self._reactor.memory.finish(self)
                holds.bits &= ~MEMORY
        elif holds.bits & BUSY:
            self._ask_for_memory()
            self.holds.let_go(BUSY)

    def _flush(self) -> None:
        """Write what can be written. Close an ending connection that has nothing left to write."""
        sender = self._sender
        try:
            sender.flush()
        except (ConnectionError, TimeoutError):
            self.abort(Reason.PEER)
        except OSError as error:
            self._reactor.log.failure("cannot read part of an answer", error, **self.facts())
            self.abort(Reason.UNREADABLE_FILE)
        if not sender.outbox.size:
            if self.is_ending and self._transport is not None:
                self._transport.close()
        elif not sender.is_blocked:
            self.wake()

    def _cut_off(self, event: str, reason: Reason) -> None:
        self._reactor.warn(event, unsent_bytes=self._sender.unsent_bytes, **self.facts())
        self.abort(reason)

    def facts(self) -> dict[str, object]:
        """Return what a log line says about the connection."""
        return {"listener": self.listener, "peer": f"{self.address}:{self.peer_port}"}


def is_tls_hello(size: object) -> bool:
    """Whether the size of a frame is the start of a client's TLS handshake."""
    return isinstance(size, int) and size >> 16 == _TLS_HANDSHAKE


def _described(arrival: Arrival) -> str:
    """Return the name of the API, or its key if it is unknown."""
    known = API.get(arrival.key)
    return str(arrival.key) if known is None else known.name
