"""Holds back the callbacks of a node that is paused, slow, busy or dead.

Invariants: held callbacks keep their order; a paused node runs nothing while time passes, and later
acts on what it knew before; a slow node runs one callback per `cost_ns`; a busy one runs nothing
until its work is done; a dead one never runs anything again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from moldau.runtime.simulated.pipe import world_context
from moldau.runtime.simulated.turn import Turn

if TYPE_CHECKING:
    from moldau.runtime.simulated.incarnation import Incarnation
    from moldau.runtime.simulated.loop import SimulatedLoop


class Grave:
    """Drops the callbacks of a dead incarnation."""

    def hold(self, turn: Turn) -> None:
        """Drop the callback."""


GRAVE = Grave()


class Pace:
    """Holds back the callbacks of a node that is paused, slow or busy."""

    def __init__(self, loop: SimulatedLoop, incarnation: Incarnation) -> None:
        self._loop = loop
        self._incarnation = incarnation
        self._held: deque[Turn] = deque()
        self._paused = False
        self._cost_ns = 0
        self._busy_until_ns = 0
        self._waking = False

    @property
    def is_paused(self) -> bool:
        """Whether the node is paused."""
        return self._paused

    def pause(self) -> None:
        """Let no callback run from now on."""
        self._paused = True
        self._incarnation.gate = self

    def resume(self) -> None:
        """Run the held callbacks now, before any later ones."""
        self._paused = False
        self._go_on()

    def slow_down(self, cost_ns: int) -> None:
        """Let every callback take `cost_ns` of the node's time from now on; 0 is full speed."""
        self._cost_ns = cost_ns
        self._incarnation.gate = self
        self._go_on()

    def be_busy(self, nanoseconds: int) -> None:
        """Let the running callback take this much longer; later ones wait."""
        self._busy_until_ns = max(self._busy_until_ns, self._loop.now_ns) + nanoseconds
        self._incarnation.gate = self
        self._arrange()

    def hold(self, turn: Turn) -> None:
        """Keep a callback until it may run."""
        self._held.append(turn)
        self._arrange()

    def take(self) -> list[Turn]:
        """Return all held callbacks, when the node is cleared away."""
        held, self._held = list(self._held), deque()
        return held

    def _go_on(self) -> None:
        if self._paused:
            return
        if self._cost_ns or self._busy_until_ns > self._loop.now_ns:
            self._arrange()
            return
        # Callbacks that are ready already came after the held ones.
        for turn in self.take() + self._loop.take_ready(self._incarnation):
            self._loop.make_ready(turn)
        self._incarnation.gate = None

    def _arrange(self) -> None:
        if self._paused or self._waking:
            return
        if self._held or not self._cost_ns:
            self._waking = True
            when_ns = max(self._loop.now_ns, self._busy_until_ns)
            self._loop.schedule(when_ns, Turn(self._wake, (), world_context()))

    def _wake(self) -> None:
        self._waking = False
        if not self._cost_ns or self._busy_until_ns > self._loop.now_ns:
            if self._incarnation.alive:
                self._go_on()
            return
        if self._paused or not self._held:
            return
        self._busy_until_ns = self._loop.now_ns + self._cost_ns
        self._loop.run_turn(self._held.popleft())
        self._arrange()
