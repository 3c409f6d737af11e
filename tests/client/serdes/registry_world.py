"""Two addresses of registries in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Self

from moldau.client.serdes.registry import Schema, SchemaRegistry
from moldau.runtime import Runtime
from moldau.runtime.simulated import NodeState, Simulation
from tests.client.serdes.scripted_registry import PORT, ScriptedRegistry

TEXT = Schema('{"type": "string"}')

Main = Callable[[SchemaRegistry], Coroutine[Any, Any, Any]]


class RegistryWorld(Simulation):
    """Two addresses of registries, `r1` and `r2`, that share what they keep."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.first = ScriptedRegistry()
        self.second = ScriptedRegistry(texts=self.first.texts, subjects=self.first.subjects)
        self.r1 = self.add_node("r1", self.first.main())
        self.r2 = self.add_node("r2", self.second.main())

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def run_client(self, main: Main, url: str = f"http://r1:{PORT}", **options: Any) -> Any:
        results: list[Any] = []

        async def whole(runtime: Runtime) -> None:
            async with SchemaRegistry(url, runtime=runtime, **options) as registry:
                results.append(await main(registry))

        node = self.add_node("client", whole)
        self.run_until(lambda: node.state is NodeState.EXITED, within=600)
        return results[0]
