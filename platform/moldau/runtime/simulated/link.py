"""The way from one machine to another, in one direction.

Invariants: a link decides when something sent now arrives, or that it waits; it never reorders what
belongs to one connection (its `Pipe` sees to that) but freely reorders connections among each
other. Both directions are separate links, so a partition can be one-way.

`blocked` is a network that swallows: segments are sent again and arrive some time after it heals,
connects are lost and tried again. `clogged` is a network that is stuck: everything waits and comes
out when it is unclogged, in any order of connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from random import Random

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000


@dataclass(slots=True)
class LinkOptions:
    """What a link is like. Latency is `latency_min_ns` plus an exponential part."""

    latency_min_ns: int = 100_000
    latency_mean_ns: int = 200_000
    bytes_per_second: int | None = None
    loss: float = 0.0
    """Chance that a segment or connect is lost once and comes late, after a retransmission."""
    retransmit_ns: int = 200 * MILLISECOND_NS
    split: float = 0.0
    """Chance that a segment arrives in pieces."""
    piece_bytes_max: int = 16
    """Pieces are 1 to this many bytes at the front, and the rest in one."""


class Link:
    """One direction between two machines."""

    __slots__ = (
        "_busy_until_ns",
        "_waiting",
        "blocked",
        "clogged",
        "draw",
        "options",
        "random",
        "stopped",
    )

    def __init__(self, options: LinkOptions, random: Random) -> None:
        self.options = options
        self.random = random
        self.draw = random.random
        self.blocked = False
        self.clogged = False
        self.stopped = False
        """Whether what is sent now waits: the link is blocked or clogged."""
        self._busy_until_ns = 0
        self._waiting: list[Callable[[], None]] = []

    def latency_ns(self) -> int:
        """The time that something short takes, drawn anew each time."""
        options = self.options
        latency_ns = options.latency_min_ns
        latency_ns -= int(options.latency_mean_ns * log(1.0 - self.draw()))
        if options.loss and self.draw() < options.loss:
            latency_ns += options.retransmit_ns << self.random.randrange(3)
        return latency_ns

    def arrival_ns(self, now_ns: int, size_bytes: int) -> int:
        """When something of this size, sent now, arrives."""
        rate = self.options.bytes_per_second
        if rate is None:
            return now_ns + self.latency_ns()
        start = max(now_ns, self._busy_until_ns)
        self._busy_until_ns = start + size_bytes * SECOND_NS // rate
        return self._busy_until_ns + self.latency_ns()

    def pieces(self, data: bytes) -> list[bytes]:
        """The segment as it arrives: whole, or in pieces down to one byte."""
        options = self.options
        if len(data) < 2 or self.random.random() >= options.split:
            return [data]
        cuts = []
        position = 0
        for _ in range(self.random.randrange(1, 8)):
            size = self.random.randint(1, options.piece_bytes_max)
            if position + size >= len(data):
                break
            cuts.append(data[position : position + size])
            position += size
        cuts.append(data[position:])
        return cuts

    def when_open(self, action: Callable[[], None]) -> None:
        """Remembers what to do once the link is neither blocked nor clogged."""
        assert self.stopped, "the link is open: act now"
        self._waiting.append(action)

    def set_state(self, *, blocked: bool | None = None, clogged: bool | None = None) -> None:
        """Stops or opens the link; once open, what waited goes on, each after its own delay."""
        self.blocked = self.blocked if blocked is None else blocked
        self.clogged = self.clogged if clogged is None else clogged
        self.stopped = self.blocked or self.clogged
        if self.stopped or not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()
