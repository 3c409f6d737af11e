"""Direct access to a connection's socket beside its transport: `sendfile`, send, options and fill
level, by a descriptor of our own for writes.

Invariants: the descriptor is our own, so closing it does not close the connection; the socket never
blocks, since both descriptors share the event loop's flags; the caller keeps the order: it sends
here only while the transport itself has nothing to send.

An event loop's own sendfile needs a task for each slice and costs up to five times as much, and
uvloop has none.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import asyncio

Buffer: TypeAlias = bytes | bytearray | memoryview

# If the system has it: the kernel delays a small packet until the following data is there.
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
_INT_BYTES: Final = 4


class DirectSocket:
    """A second descriptor of a transport's socket."""

    __slots__ = ("_socket", "sent_files")

    def __init__(self, fileno: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=os.dup(fileno))
        self.sent_files = 0
        """The number of slices, or parts of slices, that were sent with it."""

    def fileno(self) -> int:
        """Return the descriptor, to wait until it is writable."""
        return self._socket.fileno()

    def send(self, data: Buffer) -> int:
        """Send data that more data follows; return the accepted size. Raise BlockingIOError if
        full."""
        return self._socket.send(data, _MORE)

    def send_file(self, fileno: int, position: int, size: int) -> int:
        """Send from the page cache; return the accepted size, 0 at the file's end. Raise
        BlockingIOError if the socket is full."""
        self.sent_files += 1
        return os.sendfile(self._socket.fileno(), fileno, position, size)

    def close(self) -> None:
        """Close this descriptor; the connection stays open."""
        self._socket.close()


def open_direct(transport: asyncio.BaseTransport) -> DirectSocket | None:
    """Return access to a plain transport's socket; None under TLS, in a simulation, and if the
    system has no sendfile."""
    if not hasattr(os, "sendfile") or transport.get_extra_info("sslcontext") is not None:
        return None
    fileno = _descriptor(transport)
    return None if fileno is None else DirectSocket(fileno)


def set_buffer_sizes(
    transport: asyncio.BaseTransport, send_bytes: int | None, receive_bytes: int | None
) -> None:
    """Set the sizes of the connection's socket buffers; None leaves a size to the system, which
    lets it grow with the traffic. Do nothing if there is no socket."""
    fileno = _descriptor(transport)
    if fileno is None:
        return
    with socket.socket(fileno=os.dup(fileno)) as same:
        if send_bytes is not None:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        if receive_bytes is not None:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)


def untaken_bytes(transport: asyncio.BaseTransport) -> int:
    """Return the bytes in the kernel that the peer has not acknowledged yet. Return 0 if there is
    no socket, or if the system does not report it."""
    fileno = _descriptor(transport)
    if fileno is None:
        return 0
    try:
        from fcntl import ioctl
        from termios import TIOCOUTQ

        return int.from_bytes(ioctl(fileno, TIOCOUTQ, bytes(_INT_BYTES)), sys.byteorder)
    except (ImportError, OSError):
        return 0


def has_ended(opened: Any) -> bool:
    """Whether the peer has ended a connection that is not read at the moment, given the socket of
    its transport. Return False while there are bytes to read, and if there is no socket."""
    fileno = _descriptor_of(opened)
    if fileno is None:
        return False
    try:
        same = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=os.dup(fileno))
    except OSError:  # the process has no file left
        return False
    with same:
        try:
            return not same.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True


def _descriptor(transport: asyncio.BaseTransport) -> int | None:
    """Return the descriptor of the transport's socket; None if there is none, or none any more."""
    return _descriptor_of(transport.get_extra_info("socket"))


def _descriptor_of(opened: Any) -> int | None:
    if opened is None:
        return None
    try:
        fileno = int(opened.fileno())
    except RuntimeError:  # a simulated socket has none
        return None
    return None if fileno < 0 else fileno
