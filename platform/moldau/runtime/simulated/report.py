"""The report of a failed run: seed, reason, the last events of each node, and waiting tasks."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.tasks import where_it_waits

if TYPE_CHECKING:
    from moldau.runtime.simulated.simulation import Simulation

TASKS_SHOWN = 30


class SimulationFailed(Exception):
    """A run failed; its text is the report, and the seed repeats the run."""

    def __init__(self, seed: int, reason: str, report: str) -> None:
        super().__init__(report)
        self.seed = seed
        self.reason = reason


def _waiting(tasks: list[asyncio.Task[Any]]) -> list[str]:
    living = [task for task in tasks if not task.done()]
    lines = [f"    {where_it_waits(task)}" for task in living[:TASKS_SHOWN]]
    if len(living) > TASKS_SHOWN:
        lines.append(f"    and {len(living) - TASKS_SHOWN} more")
    return lines


def describe(world: Simulation, reason: str, error: BaseException | None) -> str:
    """Return the report of a run that failed now."""
    loop = world.loop
    lines = [
        f"seed {world.seed}: {reason}",
        f"at {loop.now_ns / 1e9:.9f} s, after {loop.events} events,"
        f" digest {world.trace.hexdigest()}",
    ]
    if error is not None:
        lines += ["", *"".join(traceback.format_exception(error)).rstrip().splitlines()]
    lines += ["", "tasks that wait:", "  world", *_waiting(loop.tasks)]
    for node in world.nodes.values():
        lines.append(f"  {node.name} ({node.state.value})")
        if node.incarnation is not None:
            lines += _waiting(node.incarnation.tasks)
    lines += ["", "last events:"]
    for name in world.trace.nodes():
        lines += [f"  {name}", *(f"  {line}" for line in world.trace.lines(name))]
    return "\n".join(lines)
