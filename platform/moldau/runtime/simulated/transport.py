"""One end of a simulated connection, which behaves like asyncio's socket transports.

Invariants: `connection_made` comes first and once, `connection_lost` last and once, and nothing
after it; `pause_writing` and `resume_writing` alternate; writes to a transport that is closing are
dropped; a transport of a dead incarnation calls nothing, and writing to it raises NodeKilled.

As with real transports, `close` sends buffered data and `abort` drops it, and after both the peer
sees the end of the stream, or a reset if this end had unread bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context, copy_context
from errno import ECONNRESET, EPIPE
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.endpoint import Endpoint
from moldau.runtime.simulated.pipe import WINDOW_BYTES, Pipe, Signal, world_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from moldau.runtime.simulated.host import Host
    from moldau.runtime.simulated.incarnation import Incarnation
    from moldau.runtime.simulated.loop import SimulatedLoop

Address = tuple[str, int]
Buffer = bytes | bytearray | memoryview

HIGH_WATER_BYTES = 64 * 1024


class SimulatedTransport(asyncio.Transport):
    """One end of a connection: a protocol writes to it, and it calls the protocol."""

    inbound: Pipe
    outbound: Pipe

    def __init__(self, loop: SimulatedLoop, host: Host, local: Address, peer: Address) -> None:
        self._loop = loop
        self.host = host
        self.local = local
        self.peer = peer
        self.incarnation: Incarnation | None = None
        self.context: Context = world_context()
        self.history = loop.trace.history(host.name)
        self.is_receiving = False
        """Whether arriving data goes to the protocol at once."""
        self.is_flowing = False
        """Whether data that the protocol writes is sent at once, as far as the window allows."""
        self.is_told = False
        self._protocol: Any = None
        self._hand_over: Callable[[bytes], object]
        self._started = False
        self._closing = False
        self._lost = False
        self._paused_reading = False
        self._paused_writing = False
        self._end_written = False
        self._end_sent = False
        self._end_received = False
        self._peer_is_gone = False
        self._endpoint: Endpoint | None = None
        self._buffer: deque[bytes] = deque()
        self.waiting_bytes = 0
        """The number of bytes that wait for space in the window."""
        self._high = HIGH_WATER_BYTES
        self._low = HIGH_WATER_BYTES // 4

    def __repr__(self) -> str:
        state = "closing" if self._closing else "open" if self._started else "new"
        return f"<SimulatedTransport {self.local[0]}:{self.local[1]} {state}>"

    # Life

    def start(self, protocol: asyncio.BaseProtocol, incarnation: Incarnation | None) -> None:
        """Give the connection to an application; runs as that application."""
        self.incarnation = incarnation
        self.context = copy_context()
        self.set_protocol(protocol)
        self._started = True
        was_reset = self._lost
        self._call("connection_made", self)
        if was_reset:  # before it was accepted; as with a real one, the first read finds out
            error = ConnectionResetError(ECONNRESET, "connection reset by peer")
            self._loop.call_soon(protocol.connection_lost, error, context=self.context)
        elif not self._lost:
            self.inbound.attach(self.context)
            self._set_receiving()

    def vanish(self, *, silently: bool) -> None:
        """End without callbacks or sending: the process (silently: the machine) is gone."""
        if self._lost:
            return
        unread = self.inbound.has_arrived()
        self._closing = self._lost = True
        self._forget()
        if not silently:
            self._say_goodbye(unread or not self._started)

    def _forget(self) -> None:
        self.is_receiving = self.is_flowing = False
        self._drop_buffer()
        self.host.connections.pop(self, None)
        self.inbound.detach()

    def _drop_buffer(self) -> None:
        self._buffer.clear()
        self.waiting_bytes = 0
        self.outbound.writer_waits = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that is called from now on."""
        self._protocol = protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            self._hand_over = self._fill_buffer
        else:
            # A protocol without it fails when something arrives, as with real transports.
            self._hand_over = getattr(protocol, "data_received", None)  # type: ignore[assignment]

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that is called."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return `peername`, `sockname`, or a `socket` whose options can be set."""
        if name == "peername":
            return self.peer
        if name == "sockname":
            return self.local
        if name == "socket":
            if self._endpoint is None:
                self._endpoint = Endpoint(self.local, self.peer)
            return self._endpoint
        return default

    # Reading

    def is_reading(self) -> bool:
        """Whether the protocol receives data."""
        return not self._closing and not self._paused_reading

    def pause_reading(self) -> None:
        """Stop deliveries; arriving data waits, and finally stops the writer."""
        self._paused_reading = True
        self._set_receiving()

    def resume_reading(self) -> None:
        """Deliver the data that has arrived meanwhile, and continue."""
        if self._paused_reading and not self._closing:
            self._paused_reading = False
            self._set_receiving()

    def _set_receiving(self) -> None:
        was = self.is_receiving
        self.is_receiving = (
            self._started
            and not self._paused_reading
            and not self._closing
            and not self._end_received
        )
        self._set_flowing()
        if self.is_receiving and not was:
            self.inbound.wake()

    def _set_flowing(self) -> None:
        waits = self.outbound.writer_waits = self.waiting_bytes > 0
        # An end that does not receive must first check whether a reset has arrived.
        self.is_flowing = self.is_receiving and not self._end_written and not waits

    def receive(self, data: bytes) -> None:
        """Pass bytes to the protocol; bytes without space there go back into the pipe."""
        hand_over = self._hand_over
        try:
            hand_over(data)
        except Exception as error:
            self._protocol_failed("data_received", error)

    def _fill_buffer(self, data: bytes) -> None:
        buffer = memoryview(self._protocol.get_buffer(-1)).cast("B")
        if not len(buffer):
            raise RuntimeError("get_buffer() returned an empty buffer")
        taken = min(len(buffer), len(data))
        buffer[:taken] = data[:taken]
        self._protocol.buffer_updated(taken)
        if taken < len(data):
            self.inbound.take_back(data[taken:])

    def receive_end(self) -> None:
        """Report the end of the peer's data; unless the protocol wants to stay open, close."""
        self._end_received = True
        self._set_receiving()
        if not self._call("eof_received"):
            self.close()

    # Writing

    def write(self, data: Buffer) -> None:
        """Send bytes, or buffer those that the window does not allow now."""
        if type(data) is not bytes:
            if not isinstance(data, bytes | bytearray | memoryview):
                raise TypeError(f"data must be bytes-like, not {type(data).__name__}")
            data = bytes(data)
        incarnation = self.incarnation
        if incarnation is not None and not incarnation.alive:
            incarnation.check()
        outbound, size = self.outbound, len(data)
        if self.is_flowing and 0 < size <= WINDOW_BYTES - outbound.in_flight:
            outbound.send(data, size)
            return
        if self._end_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not data:
            return
        if not self.is_receiving and self.inbound.reset_has_arrived():
            self.fail_to_write()
            return
        if not self.waiting_bytes:
            room = WINDOW_BYTES - outbound.in_flight
            if size <= room:
                outbound.send(data, size)
                return
            if room > 0:
                outbound.send(data[:room], room)
                data = data[room:]
        self._buffer.append(data)
        self.waiting_bytes += len(data)
        self._set_flowing()
        self._consider_pause()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send the parts as one segment."""
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """Close this direction after the buffered data; reading continues."""
        if self.incarnation is not None:
            self.incarnation.check()
        if self._closing or self._end_written:
            return
        self._end_written = True
        self._set_flowing()
        if not self.waiting_bytes:
            self._send_end()

    def can_write_eof(self) -> bool:
        """Return True: these are TCP connections."""
        return True

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that wait for the window."""
        return self.waiting_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the limits as (low, high)."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits at which the protocol is told to pause and to resume writing."""
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._consider_pause()

    def _consider_pause(self) -> None:
        if self.waiting_bytes > self._high and not self._paused_writing:
            self._paused_writing = True
            self._call("pause_writing")

    def _consider_resume(self) -> None:
        if self._paused_writing and self.waiting_bytes <= self._low:
            self._paused_writing = False
            self._call("resume_writing")

    def on_window(self) -> None:
        """Send buffered data into the space that the reader made, as this end's application."""
        self.is_told = False
        outbound = self.outbound
        while self._buffer and (room := WINDOW_BYTES - outbound.in_flight) > 0:
            data = self._buffer.popleft()
            if len(data) > room:
                self._buffer.appendleft(data[room:])
                data = data[:room]
            self.waiting_bytes -= len(data)
            outbound.send(data, len(data))
        self._set_flowing()
        if self._lost:
            return
        self._consider_resume()
        if not self._buffer:
            if self._closing:
                self._loop.call_soon(self._lose, None, context=self.context)
            elif self._end_written:
                self._send_end()

    # The end

    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._closing

    def close(self) -> None:
        """Send the buffered data and close; `connection_lost(None)` follows."""
        if self._closing or not self._is_alive():
            return
        self._closing = True
        self._set_receiving()
        if not self.waiting_bytes:
            self._loop.call_soon(self._lose, None, context=self.context)

    def abort(self) -> None:
        """Close without sending buffered data; `connection_lost(None)` follows."""
        self.fail(None)

    def fail_to_write(self) -> None:
        """Fail a write of an end that does not read: the peer has reset the connection."""
        if self._end_received:
            self.fail(BrokenPipeError(EPIPE, "broken pipe"))
        else:
            self.fail(ConnectionResetError(ECONNRESET, "connection reset by peer"))

    def fail(self, error: OSError | None) -> None:
        """End the connection because the network failed; `connection_lost(error)` follows."""
        if error is not None:
            self._peer_is_gone = True
        self._break_off(error)

    def _break_off(self, error: Exception | None) -> None:
        if self._lost or not self._is_alive():
            return
        if not self._started:
            self.vanish(silently=False)
            return
        if self._closing and not self.waiting_bytes:
            return
        self._drop_buffer()
        self._closing = True
        self._set_receiving()
        self._loop.call_soon(self._lose, error, context=self.context)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        unread = self.inbound.has_arrived()
        self._lost = True
        self._forget()
        if not self._peer_is_gone:
            self._say_goodbye(unread)
        self._protocol.connection_lost(error)

    def _say_goodbye(self, unread: bool) -> None:
        """Send the peer what the kernel sends when a socket is closed."""
        if unread:
            self.outbound.signal(Signal.RESET)
        else:
            self._send_end()

    def _send_end(self) -> None:
        if not self._end_sent:
            self._end_sent = True
            self.outbound.signal(Signal.END)

    def _is_alive(self) -> bool:
        return self.incarnation is None or self.incarnation.alive

    def _call(self, what: str, *args: object) -> object:
        """Call the protocol; an exception of it ends the connection."""
        try:
            return getattr(self._protocol, what)(*args)
        except Exception as error:
            self._protocol_failed(what, error)
            return None

    def _protocol_failed(self, where: str, error: Exception) -> None:
        self._loop.call_exception_handler(
            {
                "message": f"protocol.{where}() failed",
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )
        self._break_off(error)
