"""The reasons why a connection is not read at the moment.

Invariant: the first hold pauses the transport, and the end of the last one resumes it, unless the
connection is ending. An ending connection is never resumed.

    IN_LINE     the connection is not admitted yet
    BUSY        responses to earlier requests must leave first, or frames are aside
    MEMORY      others must complete their requests first
    THROTTLED   the client is over a quota
    ORDER       a request waits before it takes effect, see `Request.hold_order`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.network.metrics import NetworkMetrics

# Bits, since an enum's arithmetic would cost more than a request's.
IN_LINE = 1
BUSY = 2
MEMORY = 4
THROTTLED = 8
ORDER = 16
_NAMES = {
    IN_LINE: "in_line",
    BUSY: "busy",
    MEMORY: "memory",
    THROTTLED: "throttled",
    ORDER: "order",
}


class Holds:
    """The holds of one connection; `bits` has all of them."""

    __slots__ = ("_is_over", "_transport", "bits")

    def __init__(self) -> None:
        self.bits = 0
        self._is_over = False
        self._transport: asyncio.Transport | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Note that the connection is open, and that `transport` reads it."""
        self._transport = transport

    def end(self) -> None:
        """Note that the connection is ending: reading is not resumed any more."""
        self._is_over = True

    def stop(self) -> None:
        """Note that the connection is lost."""
        self._is_over = True
        self._transport = None

    def hold(self, why: int, metrics: NetworkMetrics) -> None:
        """Stop reading, and count that it stopped for this reason."""
        if self.bits & why:
            return
        metrics.pauses.bind(_NAMES[why]).value += 1
        if not self.bits:
            self.pause()
        self.bits |= why

    def pause(self) -> None:
        """Pause the transport, which may have started to read by itself."""
        if self._transport is not None:
            self._transport.pause_reading()

    def let_go(self, why: int) -> None:
        """End a hold, and read again if it was the last one."""
        if not self.bits & why:
            return
        self.bits &= ~why
        if not self.bits and not self._is_over and self._transport is not None:
            self._transport.resume_reading()
