"""sendfile on a real socket: the system's part of `moldau.broker.network.direct`."""

from __future__ import annotations

import asyncio
import os
import socket

Buffer = bytes | bytearray | memoryview


class RealDirectSocket:
    """A second descriptor of a transport's socket."""

    def __init__(self, fileno: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=os.dup(fileno))
        self.sent_files = 0

    def fileno(self) -> int:
        """To wait on for room."""
        return self._socket.fileno()

    def send(self, data: Buffer) -> int:
        """More follows: the kernel waits for it before it sends a small packet."""
        return self._socket.send(data, socket.MSG_MORE)

    def send_file(self, fileno: int, position: int, size: int) -> int:
        """From the page cache."""
        self.sent_files += 1
        return os.sendfile(self._socket.fileno(), fileno, position, size)

    def close(self) -> None:
        """The connection stays."""
        self._socket.close()


def open_direct(transport: asyncio.Transport) -> RealDirectSocket | None:
    """The way past a plain transport; None under TLS and where there is no sendfile."""
    found = transport.get_extra_info("socket")
    if found is None or transport.get_extra_info("sslcontext") is not None:
        return None
    return RealDirectSocket(found.fileno())
