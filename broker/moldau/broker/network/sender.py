"""The writing half of a connection: writes to the transport, and large slices that bypass it.

Invariants: bytes are sent in the order they were added. While `is_blocked` nothing is written. A
`flush` writes a bounded amount, so that a reader of large responses cannot delay the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.network.direct import (
    SLICE_BYTES_MIN,
    DirectSocket,
    OpenDirect,
    send_directly,
)
from moldau.broker.network.outbox import Outbox

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.network.reactor import Reactor
    from moldau.metrics import Counter

# The size of one gathered write, and what a connection may write before others have their turn.
CHUNK_BYTES = 256 << 10
TURN_BYTES = 4 * CHUNK_BYTES
WRITE_BUFFER_BYTES = 64 << 10
# Small responses are copied into one buffer: that is cheaper than a gathered write of many.
JOINED_BYTES_MAX = 4 << 10


def _nothing() -> None:
    """Do nothing: it replaces the callback of a connection that has ended."""


class Sender:
    """The sender of one connection. It calls `on_room` when it can continue."""

    __slots__ = (
        "_chunk_bytes",
        "_direct",
        "_joined_max",
        "_on_room",
        "_open_direct",
        "_reactor",
        "_sent_bytes",
        "is_blocked",
        "outbox",
        "transport",
    )

    def __init__(
        self, reactor: Reactor, sent_bytes: Counter, chunk_bytes: int, on_room: Callable[[], object]
    ) -> None:
        self.outbox = Outbox()
        self.is_blocked = False
        self.transport: asyncio.Transport | None = None
        self._reactor = reactor
        self._sent_bytes = sent_bytes
        self._chunk_bytes = chunk_bytes
        self._joined_max = min(chunk_bytes, JOINED_BYTES_MAX)
        self._on_room = on_room
        self._open_direct: OpenDirect | None = None
        self._direct: DirectSocket | None = None

    def start(self, transport: asyncio.Transport, open_direct: OpenDirect | None) -> None:
        """Start sending on a new connection."""
        # Report room only when all is sent: then slices may bypass the transport.
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES, low=0)
        self.transport = transport
        self._open_direct = open_direct

    def stop(self) -> None:
        """Stop, and drop what was not sent."""
        self.outbox.clear()
        self.transport = None
        # The callback refers to the connection. Break this cycle, so that both are freed without
        # the collector.
        self._on_room = _nothing
        if self._direct is not None:
            self._reactor.wait_no_more(self._direct.fileno())
            self._direct.close()
            self._direct = None

    def flush(self) -> None:
        """Write until all is written, the transport has enough, or this turn's share is used up.

        Raise ConnectionError if the peer is gone. Any other OSError means that a slice cannot be
        read.
        """
        transport, outbox = self.transport, self.outbox
        if transport is None:
            return
        size = outbox.size
        if size <= self._joined_max and not self.is_blocked:
            parts = outbox.take(size)
            self._sent_bytes.value += size
            if parts:
                transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
            return
        room = TURN_BYTES
        try:
            while outbox.size and not self.is_blocked and room > 0:
                before = outbox.size
                if before == outbox.held_bytes or not self._flush_directly(room):
                    parts = outbox.take(self._chunk_bytes)
                    if len(parts) == 1:
                        transport.write(parts[0])
                    elif before - outbox.size <= self._joined_max:
                        transport.write(b"".join(parts))
                    else:
                        transport.writelines(parts)
                room -= before - outbox.size
        finally:
            self._sent_bytes.value += TURN_BYTES - room

    @property
    def unsent_bytes(self) -> int:
        """The unsent bytes here and in the transport."""
        transport = self.transport
        return self.outbox.size + (transport.get_write_buffer_size() if transport else 0)

    def _flush_directly(self, size_max: int) -> bool:
        """Send large slices without the transport. Return whether something was sent or waits to
        be."""
        transport, outbox = self.transport, self.outbox
        assert transport is not None
        if self._open_direct is None or not outbox.leads_to_slice(SLICE_BYTES_MIN):
            return False
        if transport.get_write_buffer_size() or transport.is_closing():
            return False
        if self._direct is None:
            self._direct = self._open_direct(transport)
            if self._direct is None:
                self._open_direct = None
                return False
        if send_directly(outbox, self._direct, size_max):
            self.is_blocked = True
            self._reactor.wait_for_room(self._direct.fileno(), self._on_direct_room)
        return True

    def _on_direct_room(self) -> None:
        if self._direct is not None:
            self._reactor.wait_no_more(self._direct.fileno())
            self.is_blocked = False
            self._on_room()
