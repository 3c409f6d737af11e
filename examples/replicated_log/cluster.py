"""The nodes of one cluster in a simulated world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from examples.replicated_log.client import Client
from examples.replicated_log.peer import Address
from examples.replicated_log.replica import Replica, Role, Timing
from examples.replicated_log.server import Server
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import Node
from moldau.runtime.simulated.simulation import Simulation

PORT = 9100

MakeServer = Callable[..., Server]


class Cluster:
    """Nodes 1 to `size`, each a machine with its own disk, clock and address."""

    def __init__(
        self,
        world: Simulation,
        size: int = 3,
        make_server: MakeServer = Server,
        timing: Timing | None = None,
    ) -> None:
        self.addresses: dict[int, Address] = {
            number: (f"node-{number}", PORT) for number in range(1, size + 1)
        }
        self.servers: dict[int, Server] = {}
        self._make_server = make_server
        self._timing = timing
        self._formatted: set[int] = set()
        self.nodes: dict[int, Node] = {
            number: world.add_node(name, partial(self._run_server, number))
            for number, (name, _) in self.addresses.items()
        }

    async def _run_server(self, number: int, runtime: Runtime) -> None:
        server = self.servers[number] = self._make_server(
            runtime, number, self.addresses, self._timing
        )
        if number not in self._formatted:  # an operator does this once for each new machine
            await runtime.run_blocking(server.format)
            self._formatted.add(number)
        await server.run()

    def client(self, runtime: Runtime) -> Client:
        """Return a client, which runs on another machine."""
        return Client(runtime, self.addresses)

    def replicas(self) -> dict[int, Replica]:
        """Return the replicas of the nodes that are up."""
        return {
            number: server.replica
            for number, server in self.servers.items()
            if self.nodes[number].is_alive and server.replica is not None
        }

    def leader(self) -> int | None:
        """Return the leader of the highest epoch, or None. It may be cut off and not know it."""
        leaders = [
            (replica.epoch, number)
            for number, replica in self.replicas().items()
            if replica.role is Role.LEADER
        ]
        return max(leaders)[1] if leaders else None
