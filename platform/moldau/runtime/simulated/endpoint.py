"""The part of a socket's interface that code uses of a transport or a server.

Options can be set and read back without effect: TCP_NODELAY and keepalive affect costs that the
simulated network does not have. There is no descriptor.
"""

from __future__ import annotations

import socket

from moldau.runtime.simulated.refusal import refuse

Address = tuple[str, int]


class Endpoint:
    """One end of a connection, or a bound port."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, local: Address, peer: Address | None = None) -> None:
        self._local = local
        self._peer = peer
        self._options: dict[tuple[int, int], int | bytes] = {}

    def getsockname(self) -> Address:
        """Return the local (address, port)."""
        return self._local

    def getpeername(self) -> Address:
        """Return the peer's (address, port)."""
        if self._peer is None:
            raise OSError(107, "transport endpoint is not connected")
        return self._peer

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """Store the option."""
        self._options[level, option] = value

    def getsockopt(self, level: int, option: int) -> int | bytes:
        """Return the option as it was set; 0 before."""
        return self._options.get((level, option), 0)

    def fileno(self) -> int:
        """Raise RealWorldRefused: there is no descriptor."""
        refuse("a descriptor of a socket", "use protocols or streams")
