"""The link from one machine to another, in one direction.

Invariants: a link decides when data that is sent now arrives, or that it waits; it never reorders
data of one connection (its `Pipe` ensures that) but freely reorders connections among each other.
Both directions are separate links, so a partition can be one-way.

`blocked` is a network that drops data: segments are sent again and arrive some time after it heals,
connects are lost and tried again. `clogged` is a network that is stuck: everything waits and
arrives when it is unclogged, in any order of connections.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from random import Random

from moldau.deferred import dataclass

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000

DRAWN_TOGETHER = 64
"""The number of latencies that are drawn at once, which takes half of the time."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The properties of a link. Latency is `latency_min_ns` plus an exponential part."""

    latency_min_ns: int = 100_000
    latency_mean_ns: int = 200_000
    bytes_per_second: int | None = None
    loss: float = 0.0
    """The chance that a segment or connect is lost once and arrives late, by retransmission."""
    retransmit_ns: int = 200 * MILLISECOND_NS
    split: float = 0.0
    """The chance that a segment arrives in pieces."""
    piece_bytes_max: int = 16
    """Pieces have 1 to this many bytes at the front; the rest is one piece."""

    @property
    def is_plain(self) -> bool:
        """Whether the link has only a latency, and no loss, pieces or rate."""
        return not (self.loss or self.split) and self.bytes_per_second is None


class Link:
    """One direction between two machines."""

    __slots__ = (
        "_busy_until_ns",
        "_options",
        "_waiting",
        "blocked",
        "clogged",
        "is_plain",
        "latencies_ns",
        "random",
        "stopped",
    )

    def __init__(self, options: LinkOptions, random: Random) -> None:
        self.random = random
        self.blocked = False
        self.clogged = False
        self.stopped = False
        """Whether data that is sent now waits, because the link is blocked or clogged."""
        self.options = options
        self._busy_until_ns = 0
        self._waiting: list[Callable[[], None]] = []

    @property
    def options(self) -> LinkOptions:
        """The present properties of the link."""
        return self._options

    @options.setter
    def options(self, options: LinkOptions) -> None:
        self._options = options
        self.latencies_ns: list[int] = []
        """The latencies that are drawn already, the next one last."""
        self._set_plain()

    def _set_plain(self) -> None:
        self.is_plain = self._options.is_plain and not self.stopped
        """Whether data that is sent now arrives after its latency, with no other effects."""

    def latency_ns(self) -> int:
        """Return the latency of a short message, drawn for each call."""
        options = self._options
        latency_ns = (self.latencies_ns or self.draw_latencies()).pop()
        if options.loss and self.random.random() < options.loss:
            latency_ns += options.retransmit_ns << self.random.randrange(3)
        return latency_ns

    def draw_latencies(self) -> list[int]:
        """Fill `latencies_ns` again, with latencies of segments that are not lost."""
        min_ns, mean_ns = self._options.latency_min_ns, self._options.latency_mean_ns
        draw = self.random.random
        self.latencies_ns = [
            min_ns - int(mean_ns * log(1.0 - draw())) for _ in range(DRAWN_TOGETHER)
        ]
        return self.latencies_ns

    def arrival_ns(self, now_ns: int, size_bytes: int) -> int:
        """Return the time of arrival of data of this size that is sent now."""
        rate = self.options.bytes_per_second
        if rate is None:
            return now_ns + self.latency_ns()
        start = max(now_ns, self._busy_until_ns)
        self._busy_until_ns = start + size_bytes * SECOND_NS // rate
        return self._busy_until_ns + self.latency_ns()

    def pieces(self, data: bytes) -> list[bytes]:
        """Return the segment as it arrives: whole, or in pieces down to one byte."""
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
        """Store an action for the time when the link is neither blocked nor clogged."""
        assert self.stopped, "the link is open: act now"
        self._waiting.append(action)

    def set_state(self, *, blocked: bool | None = None, clogged: bool | None = None) -> None:
        """Stop or open the link; once it is open, waiting data goes on, each with its own delay."""
        self.blocked = self.blocked if blocked is None else blocked
        self.clogged = self.clogged if clogged is None else clogged
        self.stopped = self.blocked or self.clogged
        self._set_plain()
        if self.stopped or not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()
