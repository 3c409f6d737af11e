"""Rare paths taken on purpose, and proof that rare things were seen at all.

Invariants: a point is either active for a whole run or not at all (drawn per seed, so that runs
differ in character), and each point draws from randomness of its own, so that adding one changes
nothing for the others. Activations are counted: a point or a `sometimes` that never happens in many
seeds tests nothing.
"""

from __future__ import annotations

from collections import Counter
from random import Random

ACTIVE_SHARE = 0.25


class Buggify:
    """The rare paths of one run."""

    def __init__(self, seed: str, *, active_share: float = ACTIVE_SHARE) -> None:
        self._seed = seed
        self._active_share = active_share
        self._points: dict[str, Random | None] = {}
        self.enabled = True
        self.activations: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    def __call__(self, name: str, probability: float) -> bool:
        """Whether the place called `name` takes its rare path now."""
        self.asked[name] += 1
        if name not in self._points:
            random = Random(f"{self._seed}/buggify/{name}")
            self._points[name] = random if random.random() < self._active_share else None
        point = self._points[name]
        if point is None or not self.enabled or point.random() >= probability:
            return False
        self.activations[name] += 1
        return True


class Coverage:
    """What tests hope to see sometimes."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    def sometimes(self, name: str, happened: bool = True) -> None:
        """Counts that `name` was asked about, and whether it was so."""
        self.asked[name] += 1
        if happened:
            self.seen[name] += 1

    def never(self) -> list[str]:
        """What was asked about and never seen."""
        return sorted(name for name in self.asked if not self.seen[name])
