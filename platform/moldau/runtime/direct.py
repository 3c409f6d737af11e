"""Past the transport: `sendfile`, send, options and fill of a connection's socket, by a descriptor
of our own where it is written to.

Invariants: the descriptor is our own, so closing it leaves the connection as it is; the socket
never blocks, since both descriptors share what the event loop set; the caller keeps the order: it
sends here only while the transport has nothing of its own to send.

An event loop's own sendfile needs a task for each slice and costs up to five times as much, and
uvloop has none.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import asyncio

Buffer: TypeAlias = bytes | bytearray | memoryview

# Where the system has it: the kernel keeps a small packet back until what follows is there.
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
_INT_BYTES: Final = 4


class DirectSocket:
    """A second descriptor of a transport's socket."""

    __slots__ = ("_socket", "sent_files")

    def __init__(self, fileno: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=os.dup(fileno))
        self.sent_files = 0
        """How many slices, or parts of slices, went this way."""

    def fileno(self) -> int:
        """To wait on for room."""
        return self._socket.fileno()

    def send(self, data: Buffer) -> int:
        """How much was taken; more is to follow at once. BlockingIOError: no room."""
        return self._socket.send(data, _MORE)

    def send_file(self, fileno: int, position: int, size: int) -> int:
        """From the page cache; how much was taken, 0 at the file's end. BlockingIOError: no
        room."""
        self.sent_files += 1
        return os.sendfile(self._socket.fileno(), fileno, position, size)

    def close(self) -> None:
        """The connection stays."""
        self._socket.close()


def open_direct(transport: asyncio.BaseTransport) -> DirectSocket | None:
    """The way past a plain transport; None under TLS, in a simulation, and where the system has no
    sendfile."""
    if not hasattr(os, "sendfile") or transport.get_extra_info("sslcontext") is not None:
        return None
    fileno = _descriptor(transport)
    return None if fileno is None else DirectSocket(fileno)


def set_buffer_sizes(
    transport: asyncio.BaseTransport, send_bytes: int | None, receive_bytes: int | None
) -> None:
    """Give the connection's socket buffers of these sizes; None leaves one to the system, which
    lets it grow with the traffic. Nothing is done where there is no socket."""
    fileno = _descriptor(transport)
    if fileno is None:
        return
    with socket.socket(fileno=os.dup(fileno)) as same:
        if send_bytes is not None:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        if receive_bytes is not None:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)


def untaken_bytes(transport: asyncio.BaseTransport) -> int:
    """What the kernel has of the connection, and the other side has not taken yet. 0 where there is
    no socket, and where the system does not tell."""
    fileno = _descriptor(transport)
    if fileno is None:
        return 0
    try:
        from fcntl import ioctl
        from termios import TIOCOUTQ

        return int.from_bytes(ioctl(fileno, TIOCOUTQ, bytes(_INT_BYTES)), sys.byteorder)
    except (ImportError, OSError):
        return 0


def _descriptor(transport: asyncio.BaseTransport) -> int | None:
    """Of the transport's socket; None where there is none, or none any more."""
    found = transport.get_extra_info("socket")
    if found is None:
        return None
    try:
        fileno = int(found.fileno())
    except RuntimeError:  # a simulated socket refuses it
        return None
    return None if fileno < 0 else fileno
