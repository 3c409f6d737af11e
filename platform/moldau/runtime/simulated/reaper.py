"""Clears a killed incarnation away.

Order: it is already poisoned and its sockets have vanished; now its tasks are cancelled and run
until they are gone, so that no frame of a dead process stays alive in this one. Their clean-up code
runs, and can touch nothing. Callbacks that were pending at the moment of death are not run: a dead
process would not have run them; only asyncio's own machinery is, which tasks need in order to end.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.runtime.simulated.gate import GRAVE, Pace
from moldau.runtime.simulated.incarnation import Incarnation
from moldau.runtime.simulated.tasks import where_it_waits

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop
    from moldau.runtime.simulated.turn import Turn

ROUNDS = 100


def _is_machinery(turn: Turn) -> bool:
    """Whether the callback belongs to asyncio's tasks and not to the node's own code."""
    callback: Any = turn._callback
    while isinstance(callback, partial):
        callback = callback.func
    if isinstance(getattr(callback, "__self__", None), asyncio.Future):
        return True
    return str(getattr(callback, "__module__", "")).startswith("asyncio.")


def reap(loop: SimulatedLoop, incarnation: Incarnation) -> list[str]:
    """Ends every task of a dead incarnation; returns where those wait that will not end."""
    assert not incarnation.alive, "poison first"
    gate = incarnation.gate
    held = gate.take() if isinstance(gate, Pace) else []
    pending = [turn for turn in held + loop.take_ready(incarnation) if _is_machinery(turn)]
    for _ in range(ROUNDS):
        living = [task for task in incarnation.tasks if not task.done()]
        for task in living:
            task.cancel()
        pending += loop.take_ready(incarnation)
        if not living and not pending:
            break
        for turn in pending:
            loop.run_turn(turn)
        pending = []
    leftovers = [where_it_waits(task) for task in incarnation.tasks if not task.done()]
    for task in incarnation.tasks:
        if task.done() and not task.cancelled():
            task.exception()
    incarnation.tasks.clear()
    incarnation.gate = GRAVE
    return leftovers
