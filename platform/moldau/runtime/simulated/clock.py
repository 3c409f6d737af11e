"""The clocks of a simulated node: virtual time as this machine would measure it.

Invariants: time is in whole nanoseconds inside; `monotonic` never decreases, at any rate; the wall
clock may jump in both directions, and is offset and drifts apart from the other nodes'.

A drifting node sees its own timers drift as well: the loop gets the time from `local_ns`, and the
moment of a local deadline from `instant_ns`, so timeouts are early or late with the clock. When the
rate changes, the pending timers move with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.runtime.simulated.incarnation import Incarnation
    from moldau.runtime.simulated.loop import SimulatedLoop

EPOCH_MS = 1_750_000_000_000
"""The wall clock at virtual time zero: some moment in June 2025, the same in every run."""

_MILLION = 1_000_000


class NodeClock:
    """The hardware clocks of one machine; they outlive the incarnations that run on it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self._anchor_ns = loop.now_ns
        self._local_anchor_ns = loop.now_ns
        self._rate_ppm = 0
        self._wall_offset_ms = 0
        self.drifts = False
        """Whether this clock has ever differed from the virtual time of the loop."""

    def local_ns(self) -> int:
        """Return the present time of this machine."""
        if not self.drifts:
            return self.loop.now_ns
        elapsed = self.loop.now_ns - self._anchor_ns
        if self._rate_ppm:
            elapsed += elapsed * self._rate_ppm // _MILLION
        return self._local_anchor_ns + elapsed

    def instant_ns(self, local_ns: int) -> int:
        """Return the loop's time at which this machine's clock first shows `local_ns` or more."""
        elapsed = local_ns - self._local_anchor_ns
        return self._anchor_ns + -(-elapsed * _MILLION // (_MILLION + self._rate_ppm))

    def drift(self, ppm: int) -> None:
        """Let the clock run faster (ppm > 0) or slower from now on; 100_000 is ten percent."""
        assert ppm > -_MILLION, "a clock cannot run backwards"
        self._local_anchor_ns = self.local_ns()
        self._anchor_ns = self.loop.now_ns
        self._rate_ppm = ppm
        self.drifts = ppm != 0 or self._anchor_ns != self._local_anchor_ns
        self.loop.reschedule(self)

    def jump_wall(self, milliseconds: int) -> None:
        """Move the wall clock as an operator or a time daemon would; timers are not affected."""
        self._wall_offset_ms += milliseconds

    def set_right(self) -> None:
        """Correct the clock, as a time daemon does: true wall clock, no drift from now on."""
        self.drift(0)
        self._wall_offset_ms = (self.loop.now_ns - self.local_ns()) // _MILLION

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 on this machine's wall clock."""
        now_ns = self.local_ns() if self.drifts else self.loop.now_ns
        return EPOCH_MS + self._wall_offset_ms + now_ns // _MILLION


class SimulatedClock:
    """The `Clock` of one incarnation: the machine's clocks, until it is killed."""

    def __init__(self, clock: NodeClock, incarnation: Incarnation) -> None:
        self._clock = clock
        self._loop = clock.loop
        self._incarnation = incarnation

    def monotonic_ns(self) -> int:
        """Return nanoseconds of virtual time as this machine measures them."""
        if not self._incarnation.alive:
            self._incarnation.check()
        clock = self._clock
        return clock.local_ns() if clock.drifts else self._loop.now_ns

    def monotonic(self) -> float:
        """Return the same time in seconds; it equals the loop's `time()` on this node."""
        if not self._incarnation.alive:
            self._incarnation.check()
        clock = self._clock
        return (clock.local_ns() if clock.drifts else self._loop.now_ns) / 1e9

    def wall_ms(self) -> int:
        """Return the wall clock of this machine, right or wrong."""
        self._incarnation.check()
        return self._clock.wall_ms()
