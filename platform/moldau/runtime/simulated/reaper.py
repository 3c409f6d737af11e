"""Clears a killed incarnation away.

Order: it is already poisoned and its sockets have vanished; now its tasks are cancelled and run
until they are gone, so that no frame of a dead process stays alive in this one. Their clean-up code
runs, but can change nothing. Callbacks that were pending at the moment of death are not run: a dead
process would not have run them. Only asyncio's own callbacks run, which tasks need in order to end.
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
    """End every task of a dead incarnation; return the places where tasks wait that do not end."""
    assert not incarnation.alive, "poison first"
    # As the dead node: objects that are released here may have finalizers, which belong to it.
    context = copy_context()
    context.run(CURRENT.set, incarnation)
    return context.run(_clear_away, loop, incarnation)


def _clear_away(loop: SimulatedLoop, incarnation: Incarnation) -> list[str]:
    if incarnation.threads is not None:
        incarnation.threads.end()
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
        # Code that catches its own end would loop in the collector that tries to close it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
    for task in incarnation.tasks:
        if task.done() and not task.cancelled():
            task.exception()
    incarnation.tasks.clear()
    incarnation.gate = GRAVE
    loop.bury(incarnation)
    return leftovers
