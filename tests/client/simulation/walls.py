"""What the wall clocks of a world have shown: they run on, and jump.

A time that somebody claims to have read is held against all that the clock showed meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from moldau.runtime.simulated.clock import NodeClock


class Moment(NamedTuple):
    """On one clock: what it shows, and how often it has jumped before."""

    wall_ms: int
    jumps: int


class Walls:
    """See the module."""

    def __init__(self) -> None:
        self._jumps: dict[NodeClock, list[tuple[int, int]]] = defaultdict(list)
        """What it showed before and after."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sees all jumps in the meantime."""
        with (
            patch.object(NodeClock, "jump_wall", self._seen(NodeClock.jump_wall)),
            patch.object(NodeClock, "set_right", self._seen(NodeClock.set_right)),
        ):
            yield

    def _seen(self, original: Callable[..., None]) -> Callable[..., None]:
        def seen(clock: NodeClock, *arguments: Any) -> None:
            before = clock.wall_ms()
            original(clock, *arguments)
            self._jumps[clock].append((before, clock.wall_ms()))

        return seen

    def now(self, clock: NodeClock) -> Moment:
        """To be given to `has_shown` later."""
        return Moment(clock.wall_ms(), len(self._jumps[clock]))

    def has_shown(self, clock: NodeClock, since: Moment, wall_ms: int) -> bool:
        """Whether it was that time on this clock at some moment since then."""
        low = since.wall_ms
        for before, after in self._jumps[clock][since.jumps :]:
            if low <= wall_ms <= before:
                return True
            low = after
        return low <= wall_ms <= clock.wall_ms()
