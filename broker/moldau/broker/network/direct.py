"""Sending large slices of files from the page cache to the socket with `sendfile`.

A transport cannot do this without a task for each slice, which costs more than the copy it saves.
So a connection whose transport has nothing buffered may bypass it: the connection writes to the
same socket through a second descriptor, and waits for room there itself.

Invariants: nothing bypasses a transport that still has bytes of its own. The header before a slice
is sent the same way, in the same packets. A slice that was begun here is ended here or, byte exact,
by the transport.

The runtime says whether this is possible (`OpenDirect`). It is not under TLS or in a simulation;
there, responses are sent by gathered writes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO
from typing import Any, Protocol, TypeAlias

from moldau.broker.network.outbox import Buffer, Outbox

# A gathered write is as cheap or cheaper below this size (`bench/network.py`).
SLICE_BYTES_MIN = 512 << 10


class DirectSocket(Protocol):
    """A second descriptor of a connection's socket."""

    def fileno(self) -> int:
        """Return the descriptor on which to wait for room."""
        ...

    def send(self, data: Buffer, /) -> int:
        """Send bytes, and return how many were taken. More will follow at once. Raise
        BlockingIOError if there is no room."""
        ...

    def send_file(self, fileno: int, position: int, size: int, /) -> int:
        """Send a part of a file, and return how many bytes were taken: 0 at the file's end. Raise
        BlockingIOError if there is no room."""
        ...

    def close(self) -> None:
        """Close the descriptor. The connection stays open."""
        ...


OpenDirect: TypeAlias = Callable[[Any], DirectSocket | None]
"""Opens a second descriptor for a transport, or returns None if that is not possible."""


def send_directly(outbox: Outbox, socket: DirectSocket, size_max: int) -> bool:
    """Send large slices and what precedes them, at most about `size_max` bytes.

    Return True if the socket has no room for more. The transport may send what is next.
    """
    room = size_max
    try:
        while room > 0 and outbox.leads_to_slice(SLICE_BYTES_MIN):
            piece = outbox.first()
            if isinstance(piece, tuple):
                room -= _send_slice(outbox, socket, piece, room)
            else:
                count = socket.send(piece)
                outbox.forget(count)
                room -= count
    except BlockingIOError:
        return True
    return False


def _send_slice(
    outbox: Outbox, socket: DirectSocket, piece: tuple[int, int, int], size_max: int
) -> int:
    """Send up to `size_max` bytes of a slice. The kernel takes them in pieces, while the peer
    reads."""
    fileno, position, left = piece
    wanted = min(left, size_max)
    sent = 0
    try:
        while sent < wanted:
            count = socket.send_file(fileno, position + sent, wanted - sent)
            if not count:
                raise OSError(EIO, f"a slice ends {left - sent} bytes early")
            sent += count
    finally:
        if sent:
            outbox.forget(sent)
    return sent
