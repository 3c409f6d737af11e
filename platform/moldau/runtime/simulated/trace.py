"""The rolling hash of everything that happened, and the last events of each node.

Invariant: equal seeds give equal digests, in every process and with any PYTHONHASHSEED, because
only integers are hashed: virtual time, kind, node, checksum of the payload. Digests that differ
between two runs of one seed mean that something outside the seed had an influence.

Callbacks are only in the digest, and are hashed many at a time: until then they are integers in a
list. Events for readers (deliveries, connections, faults, failures) are also stored, as facts that
a report turns into text.
"""

from __future__ import annotations

from collections import deque
from typing import Any
from zlib import crc32

from moldau.deferred import dataclass

HISTORY = 40
_MASK = (1 << 64) - 1

WORLD = "world"

History = deque[tuple[Any, ...]]
"""Events of one node: virtual time, kind, facts."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The facts of a run, short enough to keep and exact enough to compare."""

    digest: str
    events: int
    now_ns: int
    milestones: tuple[tuple[int, int, int], ...] = ()
    """(events, virtual time, digest) at regular counts of events on the way."""

    def first_difference(self, other: Fingerprint) -> str:
        """Return the place where two runs began to differ, as exactly as milestones tell."""
        good = (0, 0)
        for mine, theirs in zip(self.milestones, other.milestones, strict=False):
            if mine != theirs:
                break
            good = mine[:2]
        return f"equal up to event {good[0]} at {good[1] / 1e9:.9f} s"


class Trace:
    """The hash and the latest events of one run."""

    __slots__ = ("_history", "_length", "_mixed", "milestones", "unmixed", "unmixed_bytes")

    def __init__(self, length: int = HISTORY) -> None:
        self._mixed = 0
        self.unmixed: list[int] = []
        """The events since the last `mix`; it is always this one list."""
        self.unmixed_bytes: list[bytes] = []
        """The bytes received since then: one checksum over all costs a third of one for each."""
        self.milestones: list[tuple[int, int, int]] = []
        self._length = length
        self._history: dict[str, History] = {}

    def history(self, node: str) -> History:
        """Return the latest events of a node; the list drops the oldest at a fixed length."""
        known = self._history.get(node)
        if known is None:
            known = self._history[node] = deque(maxlen=self._length)
        return known

    def note(self, now_ns: int, node: str, kind: str, *facts: Any) -> None:
        """Store an event for readers, and hash its kind, node and facts."""
        self.history(node).append((now_ns, kind, *facts))
        text = f"{kind} {node} {facts!r}"
        self.unmixed += (now_ns, crc32(text.encode()))

    @property
    def digest(self) -> int:
        """The hash of everything so far. Reading it does not change later digests."""
        checksum = crc32(b"".join(self.unmixed_bytes))
        return hash((self._mixed, *self.unmixed, *map(len, self.unmixed_bytes), checksum))

    def mix(self) -> None:
        """Hash the collected events. The times of these calls are part of the digest."""
        self._mixed = self.digest
        self.unmixed.clear()
        self.unmixed_bytes.clear()

    def hexdigest(self) -> str:
        """Return the digest as 16 hexadecimal digits."""
        return f"{self.digest & _MASK:016x}"

    def nodes(self) -> list[str]:
        """Return every node that has a history, in order of first appearance."""
        return list(self._history)

    def lines(self, node: str) -> list[str]:
        """Return the last events of a node, oldest first."""
        return [
            f"{now_ns / 1e9:14.9f}  {kind} {' '.join(map(str, facts))}".rstrip()
            for now_ns, kind, *facts in self._history.get(node, ())
        ]
