"""TLS for accepted connections: a transport between a plain transport and a protocol.

    listener = await network.listen(factory, host, port, tls=TlsServer(context, on_failure))

Invariants: the factory is called after the handshake, so a half-open handshake costs little memory.
At most `handshakes_max` handshakes are under way at a listener, of them at most
`handshakes_per_source_max` of one source, each for `handshake_seconds`. Beyond it, a new handshake
ends one of the source with the most: the one that has waited for its client for the longest, for
`silent_seconds` at least if the source has not more than the new one's. If there is none, the new
one ends. A handshake that waits for a step of ours is never ended for another. One step of one
handshake runs in an iteration of the event loop, so a storm of handshakes delays the other
connections by at most one signature. What the protocol writes in one call leaves in one write.

The context is asked for at each handshake, so a new certificate needs no new listener. Event loops
have TLS of their own, but it takes one context for the life of a listener, has no bound on the
number of handshakes, and reports a failed one only to its own log.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.runtime.handshakes import TOO_MANY, source_of

if TYPE_CHECKING:
    from moldau.runtime.handshakes import Handshakes

Buffer = bytes | bytearray | memoryview

_JOINED_BYTES_MAX: Final = 16 << 10
"""The size of a TLS record: smaller parts are written as one record."""
_HANDSHAKE_BYTES_MAX: Final = 256 << 10
_HANDSHAKE_RECORD: Final = 0x16
ADMISSION: Final = "admission"
"""The name under which `get_extra_info` returns the admission of a connection."""

PLAIN_TEXT: Final = "the client does not speak TLS"
TIMED_OUT: Final = "the handshake takes too long"
NOT_ADMITTED: Final = "no place was free in time"
TOO_LARGE: Final = "the handshake is too large"


class Admission(Protocol):
    """How an accepted connection counts among the limits of its server."""

    def leave(self) -> None:
        """Count it no more, unless the protocol does: the connection is lost."""
        ...


@dataclass(frozen=True, slots=True)
class TlsServer:
    """How a listener accepts TLS."""

    context: Callable[[], ssl.SSLContext]
    """Returns the context for a handshake."""
    on_failure: Callable[[str, str], object]
    """Called with the address and the reason if a connection fails before its protocol has it."""
    handshake_seconds: float = 10.0
    handshakes_max: int = 1024
    handshakes_per_source_max: int = 256
    """How many handshakes of one IPv4 address or IPv6 network (/64) may be under way."""
    silent_seconds: float = 1.0
    """How long a handshake may wait for its client before another of its address ends it."""
    arrive: Callable[[TlsTransport], Admission] | None = None
    """Called for each accepted connection before its handshake. It calls `begin` of the transport,
    or `wait` and later `begin`, or `abort`. None: each handshake begins at once."""


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The server's end of TLS: the protocol of a plain transport, and the transport of another
    protocol. It is one object, because every connection pays for each."""

    def __init__(
        self, handshakes: Handshakes, factory: Callable[[], asyncio.BufferedProtocol]
    ) -> None:
        super().__init__()
        self._handshakes = handshakes
        self._factory = factory
        self._protocol: asyncio.BufferedProtocol | None = None
        """The protocol above, from the end of the handshake on."""
        self._plain: asyncio.Transport | None = None
        self.source = ""
        self._admission: Admission | None = None
        self._ssl: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._timer: asyncio.TimerHandle | None = None
        self._handshake_bytes = 0
        self.is_queued = False
        """Whether the next step of the handshake is ours, and not the client's."""
        self._is_closing = False
        self._is_paused = False

    # Called by the plain transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask to be admitted, and wait for the client's first bytes."""
        self._plain = cast(asyncio.Transport, transport)
        self.source = source_of(transport.get_extra_info("peername"))
        self._handshakes.accept(self)
        arrive = self._handshakes.terms.arrive
        if arrive is None:
            self.begin()
        else:
            self._admission = arrive(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the listener's buffer for encrypted bytes."""
        return self._handshakes.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take the encrypted bytes, and pass on what they contain."""
        if self._is_closing:
            return
        data = self._handshakes.buffer[:nbytes]
        if self._protocol is not None:
            self._incoming.write(data)
            self._deliver()
            return
        if not self._handshake_bytes and data[0] != _HANDSHAKE_RECORD:
            self.fail(PLAIN_TEXT)
            return
        self._handshake_bytes += nbytes
        if self._handshake_bytes > _HANDSHAKE_BYTES_MAX:
            self.fail(TOO_LARGE)
            return
        self._incoming.write(data)
        if not self.is_queued:
            self.is_queued = True
            self._handshakes.continue_soon(self)

    def pause_writing(self) -> None:
        """Tell the protocol to stop writing."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Tell the protocol to continue writing."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the protocol that the connection has ended."""
        was_closing, self._is_closing = self._is_closing, True
        protocol, self._protocol = self._protocol, None
        self._end_handshake()
        if self._admission is not None:
            self._admission.leave()
        if protocol is not None:
            protocol.connection_lost(exc)
        elif self._handshake_bytes and not was_closing:
            self._report("the client ended the handshake")

    # The handshake.

    def wait(self, seconds: float) -> None:
        """Read nothing until `begin`, and close if it does not come in time."""
        assert self._plain is not None
        self._plain.pause_reading()
        self._is_paused = True
        self._timer = self._handshakes.call_later(seconds, lambda: self.fail(NOT_ADMITTED))

    def begin(self) -> None:
        """Begin the handshake."""
        if self.is_closing():
            return
        self._stop_timer()
        handshakes = self._handshakes
        if not handshakes.begin(self):
            self.fail(TOO_MANY)
            return
        self._timer = handshakes.call_later(
            handshakes.terms.handshake_seconds, lambda: self.fail(TIMED_OUT)
        )
        if self._is_paused:
            self._is_paused = False
            cast(asyncio.Transport, self._plain).resume_reading()

    def shake(self) -> None:
        """Continue the handshake with the bytes that have come."""
        self.is_queued = False
        if self._is_closing:
            return
        try:
            if self._ssl is None:
                self._ssl = self._handshakes.terms.context().wrap_bio(
                    self._incoming, self._outgoing, server_side=True
                )
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            if self._outgoing.pending:
                self._handshakes.on_step(self)
            self._send_outgoing()
            return
        except (ssl.SSLError, OSError) as error:
            self._send_outgoing()
            self.fail(_reason_of(error))
            return
        self._send_outgoing()
        self._end_handshake()
        self._protocol = self._factory()
        self._protocol.connection_made(self)
        self._deliver()

    def _end_handshake(self) -> None:
        self._handshakes.end(self)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def fail(self, reason: str) -> None:
        """Close without a protocol."""
        if self._is_closing:
            return
        self._is_closing = True
        self._end_handshake()
        self._report(reason)
        plain = self._plain
        if plain is None:
            return
        if plain.get_write_buffer_size():  # the client takes nothing, and may never do so
            self._handshakes.call_later(self._handshakes.terms.handshake_seconds, plain.abort)
        plain.close()  # an alert may still have to be sent

    def _report(self, reason: str) -> None:
        peer = None if self._plain is None else self._plain.get_extra_info("peername")
        address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
        self._handshakes.terms.on_failure(address, reason)

    # Reading.

    def _deliver(self) -> None:
        """Decrypt what has come, as much at a time as the protocol's buffer holds."""
        tls = self._ssl
        assert tls is not None
        is_more = True
        failure: Exception | None = None
        while is_more and not (self._is_paused or self._is_closing):
            protocol = self._protocol
            if protocol is None:
                return
            room = cast(memoryview, protocol.get_buffer(-1))
            size, filled = len(room), 0
            try:
                while filled < size:
                    count = cast(int, tls.read(size - filled, room[filled:] if filled else room))
                    if not count:
                        raise ssl.SSLZeroReturnError
                    filled += count
            except ssl.SSLWantReadError:
                is_more = False
            except (ssl.SSLError, OSError) as error:
                is_more, failure = False, without_frames(error)
            if filled:
                protocol.buffer_updated(filled)
        if self._outgoing.pending:
            self._send_outgoing()
        if isinstance(failure, ssl.SSLZeroReturnError):
            self.close()  # the client has said that nothing follows
        elif failure is not None:
            self._break(failure)

    def _break(self, error: Exception) -> None:
        """Close after bytes that are not valid, or the client's alert."""
        self._send_outgoing()
        self._report(_reason_of(error))
        self.abort()

    def pause_reading(self) -> None:
        """Stop passing data to the protocol."""
        self._is_paused = True
        if self._plain is not None and not self._plain.is_closing():
            self._plain.pause_reading()

    def resume_reading(self) -> None:
        """Continue passing data to the protocol, first what is here already."""
        self._is_paused = False
        if self._plain is not None and not self._plain.is_closing():
            self._plain.resume_reading()
        self._handshakes.call_soon(self._deliver_more)

    def _deliver_more(self) -> None:
        if self._protocol is not None and not (self._is_paused or self._is_closing):
            self._deliver()

    def is_reading(self) -> bool:
        """Whether the protocol receives data."""
        return not (self._is_paused or self._is_closing)

    # Writing.

    def write(self, data: Buffer) -> None:
        """Encrypt and send the data. Drop it if the connection is closing."""
        if not self.is_closing():
            self._encrypt(data)
            self._send_outgoing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Encrypt the parts in order, and send them in one write."""
        if self.is_closing():
            return
        parts = list(list_of_data)
        if sum(map(len, parts)) <= _JOINED_BYTES_MAX:
            self._encrypt(b"".join(parts))
        else:
            for each in parts:
                self._encrypt(each)
        self._send_outgoing()

    def _encrypt(self, data: Buffer) -> None:
        tls = self._ssl
        assert tls is not None
        size = len(data)
        sent = 0
        try:
            while sent < size:
                sent += tls.write(memoryview(data)[sent:] if sent else data)
        except (ssl.SSLError, OSError) as error:
            self._break(error)

    def _send_outgoing(self) -> None:
        data = self._outgoing.read()
        if data and self._plain is not None and not self._plain.is_closing():
            self._plain.write(data)

    def can_write_eof(self) -> bool:
        """Return False: TLS cannot close one direction alone."""
        return False

    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._is_closing or self._plain is None or self._plain.is_closing()

    def close(self) -> None:
        """Send the buffered data and the end of the stream, then close."""
        if self._is_closing or self._plain is None:
            return
        self._is_closing = True
        if self._ssl is not None:
            with suppress(ssl.SSLError):  # it waits for the client's end of the stream; we do not
                self._ssl.unwrap()
            self._send_outgoing()
        self._plain.close()

    def abort(self) -> None:
        """Close without sending the buffered data."""
        self._is_closing = True
        if self._plain is not None:
            self._plain.abort()

    def get_write_buffer_size(self) -> int:
        """Return the number of encrypted bytes that wait to be sent."""
        return 0 if self._plain is None else self._plain.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the limits as (low, high)."""
        assert self._plain is not None
        return self._plain.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits at which the protocol is told to pause and to resume writing."""
        assert self._plain is not None
        self._plain.set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that is called from now on."""
        self._protocol = cast(asyncio.BufferedProtocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that is called."""
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what TLS knows (`ssl_object`, `sslcontext`, `peercert`, `cipher`), or what the
        plain transport knows."""
        tls = self._ssl
        if tls is not None:
            if name == "ssl_object":
                return tls
            if name == "sslcontext":
                return tls.context
            if name == "peercert":
                return tls.getpeercert(binary_form=True)
            if name == "cipher":
                return tls.cipher()
        if name == ADMISSION:
            return self._admission
        return default if self._plain is None else self._plain.get_extra_info(name, default)


def following(context: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return a context for servers that take one: it uses the present certificate in each
    handshake."""
    first = context()

    def choose(handshake: ssl.SSLObject, name: str, _: ssl.SSLContext) -> None:
        handshake.context = context()

    first.sni_callback = choose
    return first


def _reason_of(error: Exception) -> str:
    """Return OpenSSL's words, without its file names and line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return str(error)
