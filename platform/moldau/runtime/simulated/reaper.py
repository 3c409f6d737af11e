"""Clears a killed incarnation away.

Order: it is already poisoned and its sockets have vanished; now its tasks are cancelled and run
until they are gone, so that no frame of a dead process stays alive in this one. Their clean-up code
runs, and can touch nothing. Callbacks that were pending at the moment of death are not run: a dead
process would not have run them; only asyncio's own machinery is, which tasks need in order to end.
"""

from __future__ import annotations

import ctypes
from contextvars import copy_context
from typing import TYPE_CHECKING

from moldau.runtime.simulated.gate import GRAVE, Pace
from moldau.runtime.simulated.incarnation import CURRENT, Incarnation
from moldau.runtime.simulated.tasks import where_it_waits

if TYPE_CHECKING:
    from moldau.runtime.simulated.loop import SimulatedLoop

ROUNDS = 100


def reap(loop: SimulatedLoop, incarnation: Incarnation) -> list[str]:
    """Ends every task of a dead incarnation; returns where those wait that will not end."""
    assert not incarnation.alive, "poison first"
    # As the dead node: what is let go of here may have finalizers, and those are its own.
    context = copy_context()
    context.run(CURRENT.set, incarnation)
    return context.run(_clear_away, loop, incarnation)


def _clear_away(loop: SimulatedLoop, incarnation: Incarnation) -> list[str]:
    gate = incarnation.gate
    held = gate.take() if isinstance(gate, Pace) else []
    pending = [turn for turn in held + loop.take_ready(incarnation) if turn.is_machinery]
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
    undead = [task for task in incarnation.tasks if not task.done()]
    leftovers = [where_it_waits(task) for task in undead]
    for task in undead:
        # Code that swallows its own end would loop in the collector that tries to close it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
    for task in incarnation.tasks:
        if task.done() and not task.cancelled():
            task.exception()
    incarnation.tasks.clear()
    incarnation.gate = GRAVE
    loop.bury(incarnation)
    return leftovers
