"""One simulated machine with its process: start, crash, pause, restart, loss of data.

Invariants: at most one incarnation is alive; the machine (disk, clocks, address) outlives it; after
`crash` no code of the killed process has any effect, and its tasks are gone before anything else
runs. `pause` is like a long garbage collection: nothing runs, time passes, the kernel still accepts
connections, and afterwards the node acts on old information.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from enum import Enum
from typing import TYPE_CHECKING, Any

from moldau.runtime.interface import Runtime
from moldau.runtime.simulated.clock import NodeClock
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.gate import Pace
from moldau.runtime.simulated.incarnation import CURRENT, Incarnation
from moldau.runtime.simulated.log import new_log
from moldau.runtime.simulated.node_runtime import SimulatedRuntime
from moldau.runtime.simulated.pipe import world_context
from moldau.runtime.simulated.reaper import reap
from moldau.runtime.simulated.threads import SimulatedThreads

if TYPE_CHECKING:
    from moldau.runtime.simulated.simulation import Simulation

Main = Callable[[Runtime], Coroutine[Any, Any, object]]

NODES_MAX = 1000


class NodeState(Enum):
    """The state of a machine."""

    OFF = "off"
    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"
    CRASHED = "crashed"


class Node:
    """A machine and the process that runs on it."""

    def __init__(self, world: Simulation, name: str, main: Main, index: int) -> None:
        self.name = name
        self.main = main
        self.host = world.network.add_host(name)
        self.clock = NodeClock(world.loop)
        self.disk = SimulatedDisk(world.random(f"disk/{name}"), now_ms=self.clock.wall_ms)
        self.disk.report_busy(self._be_busy)
        self.log = new_log()
        """The latest log lines of its clients; they outlive the process."""
        self.incarnation: Incarnation | None = None
        self.runtime: SimulatedRuntime | None = None
        self.starts = 0
        self.has_failed = False
        """Whether the last process ended because its main failed."""
        self.fails_run = True
        """Whether a failure of this node's code fails the simulation; otherwise it just exits."""
        self._world = world
        self._index = index
        self._pace: Pace | None = None
        self._main_task: asyncio.Task[object] | None = None
        self._end = NodeState.OFF

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.state.value}>"

    @property
    def state(self) -> NodeState:
        """The present state of the machine."""
        if self.incarnation is None:
            return self._end
        paused = self._pace is not None and self._pace.is_paused
        return NodeState.PAUSED if paused else NodeState.RUNNING

    @property
    def is_alive(self) -> bool:
        """Whether there is a process, running or paused."""
        return self.incarnation is not None

    def _note(self, kind: str, *facts: object) -> None:
        self._world.note(self.name, kind, *facts)

    def start(self, main: Main | None = None) -> None:
        """Start a process on the machine, with the present disk."""
        assert self.incarnation is None, f"{self.name} is running already"
        self.main = main or self.main
        self.starts += 1
        self.has_failed = False
        self.host.is_up = True
        incarnation = Incarnation(self.name, self.starts, self._index + NODES_MAX * self.starts)
        incarnation.clock = self.clock
        incarnation.disk = self.disk
        self.incarnation = incarnation
        self._pace = Pace(self._world.loop, incarnation)
        self.runtime = runtime = SimulatedRuntime(self._world, self, incarnation)
        random = self._world.random(f"threads/{self.name}/{self.starts}")
        incarnation.threads = SimulatedThreads(runtime, self._world.loop, incarnation, random)
        self._note("start", self.starts)
        context = copy_context()
        context.run(CURRENT.set, incarnation)
        task = self._world.loop.create_task(
            self._run_main(runtime), name=f"{self.name}/main", context=context
        )
        self._main_task = task
        task.add_done_callback(self._main_ended, context=world_context())

    async def _run_main(self, runtime: Runtime) -> object:
        return await self.main(runtime)

    def restart(self, main: Main | None = None) -> None:
        """Crash the process if there is one, and start the next one on the same disk."""
        if self.incarnation is not None:
            self.crash()
        self.start(main)

    def crash(self) -> None:
        """Kill the process, as kill -9 does: the page cache survives; peers' connections end."""
        self._die(NodeState.CRASHED, "crash", power=False)
        self.disk.kill()

    def power_loss(self) -> None:
        """Stop the machine: unsynced sectors may be lost, and peers are not notified."""
        self._die(NodeState.OFF, "power-loss", power=True)
        self.disk.power_loss()

    def lose_disk(self) -> None:
        """Crash the process if it runs, and replace the disk by an empty one."""
        if self.incarnation is not None:
            self.crash()
        self._note("lose-disk")
        self.disk.lose()

    def pause(self) -> None:
        """Stop the process as a long garbage collection does, after the callback that runs now."""
        if self._pace is not None:
            self._note("pause")
            self._pace.pause()

    def resume(self) -> None:
        """Continue a paused process."""
        if self._pace is not None and self._pace.is_paused:
            self._note("resume")
            self._pace.resume()

    def slow_down(self, cost_ns: int) -> None:
        """Let every callback of the process take `cost_ns` from now on; 0 is full speed."""
        if self._pace is not None:
            self._note("slow-down", cost_ns)
            self._pace.slow_down(cost_ns)

    def _be_busy(self, nanoseconds: int) -> None:
        if self._pace is not None:
            self._pace.be_busy(nanoseconds)

    def stop(self) -> None:
        """Request the end of the process, as SIGTERM does: main is cancelled and may clean up."""
        if self._main_task is not None and not self._main_task.done():
            self._note("stop")
            self._main_task.cancel()

    def _die(self, end: NodeState, kind: str, *, power: bool) -> None:
        incarnation = self.incarnation
        if incarnation is None:
            self.host.is_up = self.host.is_up and not power
            return
        self._note(kind)
        self._world.loop.blocking.last_moments(incarnation, is_killed=True)
        incarnation.poison()
        self.incarnation = self.runtime = self._pace = self._main_task = None
        self._end = end
        self.host.is_up = not power
        self.host.vanish(incarnation, silently=power)
        self._world.loop.call_first(self._reap, incarnation)

    def _reap(self, incarnation: Incarnation) -> None:
        leftovers = reap(self._world.loop, incarnation)
        if leftovers:
            waiting = "\n".join(f"  {line}" for line in leftovers)
            self._world.fail(f"{self.name}: tasks outlive the crash of their node:\n{waiting}")

    def _main_ended(self, task: asyncio.Task[object]) -> None:
        if task is not self._main_task:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.has_failed = True
            self._note("main-failed", type(error).__name__)
            if self.fails_run:
                self._world.fail(f"{self.name}: main failed", error)
        self._wind_down()

    def _wind_down(self, *_: object) -> None:
        """Cancel the other tasks and let them clean up, as `asyncio.run` does at its end."""
        incarnation = self.incarnation
        if incarnation is None:
            return
        living = [task for task in incarnation.tasks if not task.done()]
        if not living:
            self._exit(incarnation)
            return
        for task in living:
            task.cancel()
        living[-1].add_done_callback(self._wind_down, context=world_context())

    def _exit(self, incarnation: Incarnation) -> None:
        self._note("exit")
        self._world.loop.blocking.last_moments(incarnation, is_killed=False)
        incarnation.poison()
        self.incarnation = self.runtime = self._pace = self._main_task = None
        self._end = NodeState.EXITED
        self.host.vanish(incarnation, silently=False)
        self.disk.kill()
        self._world.loop.call_first(self._reap, incarnation)
