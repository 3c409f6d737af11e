"""A simulated cluster of scripted brokers and a client beside it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Self

from moldau.runtime import Runtime
from moldau.runtime.simulated import NodeState, Options, Simulation
from tests.client.scripted import PORT, ScriptedCluster

BOOTSTRAP = f"b1:{PORT},b2:{PORT}"


class ClientWorld(Simulation):
    """Two brokers, `b1` and `b2`, and whatever clients a test adds."""

    def __init__(self, seed: int = 1, options: Options | None = None) -> None:
        super().__init__(seed, options)
        self.cluster = ScriptedCluster({1: "b1", 2: "b2"})
        for node_id, name in self.cluster.names.items():
            self.add_node(name, self.cluster.main(node_id))
        self.clients = 0

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def run_client(
        self, main: Callable[[Runtime], Coroutine[Any, Any, Any]], *, within: float = 300.0
    ) -> Any:
        """What `main(runtime)` returns on a machine of its own; its failure fails the run."""
        results: list[Any] = []

        async def whole(runtime: Runtime) -> None:
            results.append(await main(runtime))

        self.clients += 1
        node = self.add_node(f"client{self.clients}", whole)
        self.run_until(lambda: node.state is NodeState.EXITED, within=within)
        return results[0]
