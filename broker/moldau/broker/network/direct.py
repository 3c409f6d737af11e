"""Large slices of files straight from the page cache into the socket: `sendfile`, where it pays.

A transport cannot do it without a task for each slice, which costs more than the copy it saves.
So a connection whose transport has nothing buffered may go past it: it writes to the same socket
itself, through a second descriptor, and waits for room there itself.

Invariants: nothing is sent past a transport that still has bytes of its own; the header before a
slice goes the same way, in the same packets; a slice that was begun here is ended here or, byte
exact, by the transport.

Whether there is such a way is for the runtime to say (`OpenDirect`): not under TLS and not in a
simulation, where answers leave by gathered writes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO
from typing import Any, Protocol, TypeAlias

from moldau.broker.network.outbox import Buffer, Outbox

# Below it a gathered write is cheaper or as cheap (`bench/network.py`).
SLICE_BYTES_MIN = 512 << 10


class DirectSocket(Protocol):
    """A second descriptor of a connection's socket."""

    def fileno(self) -> int:
        """To wait on for room."""
        ...

    def send(self, data: Buffer, /) -> int:
        """How much was taken; more will follow at once. BlockingIOError: no room."""
        ...

    def send_file(self, fileno: int, position: int, size: int, /) -> int:
        """How much of the file was taken, 0 at its end. BlockingIOError: no room."""
        ...

    def close(self) -> None:
        """Lets go of the descriptor; the connection stays."""
        ...


OpenDirect: TypeAlias = Callable[[Any], DirectSocket | None]
"""From a transport; None where there is no way past it."""


def send_directly(outbox: Outbox, socket: DirectSocket, size_max: int) -> bool:
    """Sends what leads to large slices, and them; at most about `size_max` bytes.

    True when the socket has no room for more. What is then next may also be left to the transport.
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
    """Sends of a slice what it can, up to `size_max` bytes: the kernel takes it in pieces, while
    the other side reads."""
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
