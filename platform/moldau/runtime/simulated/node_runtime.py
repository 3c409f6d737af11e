"""`Runtime` for one incarnation of a simulated node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.runtime.interface import Runtime
from moldau.runtime.simulated.clock import SimulatedClock
from moldau.runtime.simulated.incarnation import CURRENT, Incarnation
from moldau.runtime.simulated.network import SimulatedNetwork

if TYPE_CHECKING:
    from moldau.runtime.simulated.node import Node
    from moldau.runtime.simulated.simulation import Simulation

T = TypeVar("T")


class SimulatedRuntime(Runtime):
    """The runtime of one life of one node; it dies with that life."""

    def __init__(self, world: Simulation, node: Node, incarnation: Incarnation) -> None:
        self.node = node.name
        self.incarnation = incarnation
        self.clock = SimulatedClock(node.clock, incarnation)
        self.random = world.random(f"node/{node.name}/{incarnation.number}")
        self.files = node.disk.files(incarnation)
        self.network = SimulatedNetwork(world.sockets, node.host, incarnation)
        self._world = world
        self._takes_rare_path = world.buggify.__call__
        self._submit = world.loop.blocking.submit

    def spawn(
        self, coroutine: Coroutine[Any, Any, T], *, name: str, reported: bool = True
    ) -> asyncio.Task[T]:
        """Run `coroutine` beside the caller, as a task of this node."""
        if not self.incarnation.alive:
            coroutine.close()
            self.incarnation.check()
        context = copy_context()
        if CURRENT.get() is not self.incarnation:
            context.run(CURRENT.set, self.incarnation)
        task = self._world.loop.create_task(coroutine, name=f"{self.node}/{name}", context=context)
        if reported:
            task.add_done_callback(self._report)
        return task

    def _report(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._world.loop.call_exception_handler(
                {"message": "a spawned task failed", "exception": task.exception(), "task": task}
            )

    def run_blocking(self, function: Callable[..., T], /, *args: Any) -> asyncio.Future[T]:
        """Run `function` at a later virtual time; disk work takes as long as the disk's costs."""
        if not self.incarnation.alive:
            self._world.loop.refuse(self.incarnation)
            return self._world.loop.create_future()
        submit = self._submit
        return submit(function, args)

    def buggify(self, name: str, probability: float = 0.05) -> bool:
        """Whether the place called `name` takes its rare path now."""
        if not self.incarnation.alive:
            self.incarnation.check()
        takes_rare_path = self._takes_rare_path
        if not takes_rare_path(name, probability):
            return False
        self._world.note(self.node, "buggify", name)
        return True
