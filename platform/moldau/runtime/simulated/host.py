"""A machine on the simulated network: name, address, ports, and open sockets.

Invariant: a host outlives the processes on it. When a process dies its sockets are gone, but the
machine still answers for it (refused, reset); when the machine is off (`is_up` is False) nothing
answers.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.runtime.simulated.incarnation import Incarnation
    from moldau.runtime.simulated.listener import SimulatedServer
    from moldau.runtime.simulated.transport import SimulatedTransport

FIRST_EPHEMERAL_PORT = 49_152
PORTS_END = 65_536
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 (simulated: nothing is bound)
LOOPBACK = "127.0.0.1"


class Host:
    """One machine's part of the network."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.power_losses = 0
        """The number of power losses; each drops what the kernel would have sent again."""
        self.resolver_works = True
        self.accepts = True
        self.connections: dict[SimulatedTransport, None] = {}
        self._servers: dict[tuple[str, int], SimulatedServer] = {}
        self._next_port = FIRST_EPHEMERAL_PORT
        self._is_up = True

    @property
    def is_up(self) -> bool:
        """Whether the machine has power."""
        return self._is_up

    @is_up.setter
    def is_up(self, is_up: bool) -> None:
        if self._is_up and not is_up:
            self.power_losses += 1
        self._is_up = is_up

    def ephemeral_port(self) -> int:
        """Return a port for an outgoing connection, or for a server that requested port 0."""
        for _ in range(PORTS_END - FIRST_EPHEMERAL_PORT):
            port = self._next_port
            self._next_port = port + 1 if port + 1 < PORTS_END else FIRST_EPHEMERAL_PORT
            if not any(bound == port for _, bound in self._servers):
                return port
        raise OSError(errno.EADDRNOTAVAIL, "no free port")

    def bind(self, address: str, port: int, server: SimulatedServer) -> None:
        """Give the port to the server. Raise EADDRINUSE if it is taken."""
        for bound_address, bound_port in self._servers:
            overlaps = ANY_ADDRESS in (address, bound_address) or address == bound_address
            if bound_port == port and overlaps:
                raise OSError(errno.EADDRINUSE, f"address already in use: {address}:{port}")
        self._servers[address, port] = server

    def release(self, server: SimulatedServer) -> None:
        """Free the ports of a server."""
        self._servers = {key: known for key, known in self._servers.items() if known is not server}

    def server_at(self, address: str, port: int) -> SimulatedServer | None:
        """Return the server that listens there; None if there is none."""
        return self._servers.get((address, port)) or self._servers.get((ANY_ADDRESS, port))

    def vanish(self, incarnation: Incarnation, *, silently: bool) -> None:
        """Remove all sockets of a process; silently if the machine stopped with it."""
        for server in list(self._servers.values()):
            if server.incarnation is incarnation:
                server.vanish()
        for transport in list(self.connections):
            if transport.incarnation is incarnation:
                transport.vanish(silently=silently)
