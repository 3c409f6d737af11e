"""The rolling hash of everything that happened, and the last events of each node.

Invariant: equal seeds give equal digests, in every process and with any PYTHONHASHSEED, because
only integers are hashed: virtual time, kind, node, checksum of the payload. A digest that differs
between two runs of one seed means that something outside the seed was let in.

Callbacks go into the digest only, and many at a time: until then they are integers in a list. What
a person would want to read (deliveries, connections, faults, failures) is also remembered, as facts
that are turned into text when a report is made.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any
from zlib import crc32

HISTORY = 40
_MASK = (1 << 64) - 1

WORLD = "world"

History = deque[tuple[Any, ...]]
"""Events of one node: virtual time, kind, facts."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a run was, short enough to keep and exact enough to compare."""

    digest: str
    events: int
    now_ns: int
    milestones: tuple[tuple[int, int, int], ...] = ()
    """(events, virtual time, digest) at regular counts of events on the way."""

    def first_difference(self, other: Fingerprint) -> str:
        """Where two runs parted, as far as milestones tell."""
        good = (0, 0)
        for mine, theirs in zip(self.milestones, other.milestones, strict=False):
            if mine != theirs:
                break
            good = mine[:2]
        return f"equal up to event {good[0]} at {good[1] / 1e9:.9f} s"


class Trace:
    """Hash and memory of one run."""

    __slots__ = ("_history", "_length", "_mixed", "milestones", "unmixed", "unmixed_bytes")

    def __init__(self, length: int = HISTORY) -> None:
        self._mixed = 0
        self.unmixed: list[int] = []
        """What has happened since `mix` was last called; always this one list."""
        self.unmixed_bytes: list[bytes] = []
        """What has been received since then: one checksum over all costs a third of one each."""
        self.milestones: list[tuple[int, int, int]] = []
        self._length = length
        self._history: dict[str, History] = {}

    def history(self, node: str) -> History:
        """Where the latest events of a node are kept; grows to a fixed length and forgets."""
        known = self._history.get(node)
        if known is None:
            known = self._history[node] = deque(maxlen=self._length)
        return known

    def note(self, now_ns: int, node: str, kind: str, *facts: Any) -> None:
        """Remembers an event that people read, and hashes its kind, node and facts."""
        self.history(node).append((now_ns, kind, *facts))
        text = f"{kind} {node} {facts!r}"
        self.unmixed += (now_ns, crc32(text.encode()))

    @property
    def digest(self) -> int:
        """The hash of all so far. Asking does not change what it will be later."""
        checksum = crc32(b"".join(self.unmixed_bytes))
        return hash((self._mixed, *self.unmixed, *map(len, self.unmixed_bytes), checksum))

    def mix(self) -> None:
        """Hashes what has come together. When this is called is part of the digest."""
        self._mixed = self.digest
        self.unmixed.clear()
        self.unmixed_bytes.clear()

    def hexdigest(self) -> str:
        """The digest as 16 hexadecimal digits."""
        return f"{self.digest & _MASK:016x}"

    def nodes(self) -> list[str]:
        """Every node that has a history, in order of first appearance."""
        return list(self._history)

    def lines(self, node: str) -> list[str]:
        """The last events of a node, oldest first."""
        return [
            f"{now_ns / 1e9:14.9f}  {kind} {' '.join(map(str, facts))}".rstrip()
            for now_ns, kind, *facts in self._history.get(node, ())
        ]
