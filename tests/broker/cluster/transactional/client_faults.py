"""What strikes the machines of clients: they are killed, stand still while their transactions time
out, and lose connections on which requests are still on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from moldau.runtime.simulated.node import Node, NodeState
from moldau.testing.simulated_cluster import Program
from tests.broker.cluster.world import SimulatedBrokers

Undo = Callable[[], object]


class ClientFaults:
    """The faults of these programs."""

    def __init__(
        self, brokers: SimulatedBrokers, random: Random, programs: Sequence[Program[Any]]
    ) -> None:
        self._network = brokers.world.network
        self._brokers = brokers
        self._random = random
        self._nodes = [each.node for each in programs]

    @property
    def kinds(self) -> list[Callable[[], Undo | None]]:
        """One function for each; it returns how the fault is undone."""
        return [self._kill_client, self._stand_still, self._drop, self._delay, self._delay]

    def heal(self) -> None:
        """Let every machine run."""
        for node in self._nodes:
            _continue(node)

    def _kill_client(self) -> Undo | None:
        node = self._random.choice(self._nodes)
        if node.is_alive:
            node.crash()
        return lambda: _continue(node)

    def _stand_still(self) -> Undo | None:
        node = self._random.choice(self._nodes)
        if node.state is NodeState.RUNNING:
            node.pause()
        return lambda: _continue(node)

    def _link(self) -> tuple[str, str]:
        number = self._random.choice(self._brokers.broker_ids)
        return self._random.choice(self._nodes).name, f"b{number}"

    def _drop(self) -> None:
        """The client connects again; what it has sent still arrives."""
        self._network.drop_end(*self._link())

    def _delay(self) -> Undo | None:
        """What is sent from now on arrives after the client has given its connection up."""
        link = self._link()
        self._network.clog(*link)

        def undo() -> None:
            self._network.drop_end(*link)
            self._network.unclog(*link)

        return undo


def _continue(node: Node) -> None:
    """Start a machine that was killed, and resume one that stands still."""
    if not node.is_alive and node.state is NodeState.CRASHED:
        node.start()
    elif node.state is NodeState.PAUSED:
        node.resume()
