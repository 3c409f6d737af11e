"""Rare paths that are taken on purpose, and proof that rare events happened at all.

Invariants: a point is either active for a whole run or not at all (drawn for each seed, so that
runs differ in character), and each point has randomness of its own, so that a new one changes
nothing for the others. Activations are counted: a point or a `sometimes` that never happens in many
seeds tests nothing.
"""

from __future__ import annotations

from collections import Counter
from random import Random

ACTIVE_SHARE = 0.25


class _Point:
    """One place in the code, with its counts in this run."""

    __slots__ = ("activations", "asked", "random")

    def __init__(self, random: Random | None) -> None:
        self.random = random
        """The randomness of the place; None if it is not active in this run."""
        self.asked = 0
        self.activations = 0


class Buggify:
    """The rare paths of one run."""

    def __init__(self, seed: str, *, active_share: float = ACTIVE_SHARE) -> None:
        self._seed = seed
        self._active_share = active_share
        self._points: dict[str, _Point] = {}
        self.enabled = True

    def __call__(self, name: str, probability: float) -> bool:
        """Whether the place called `name` takes its rare path now."""
        try:
            point = self._points[name]
        except KeyError:
            point = self._new_point(name)
        point.asked += 1
        if point.random is None or not self.enabled or point.random.random() >= probability:
            return False
        point.activations += 1
        return True

    def _new_point(self, name: str) -> _Point:
        random = Random(f"{self._seed}/buggify/{name}")
        is_active = random.random() < self._active_share
        self._points[name] = point = _Point(random if is_active else None)
        return point

    @property
    def asked(self) -> Counter[str]:
        """The number of calls of each place."""
        return Counter({name: point.asked for name, point in self._points.items()})

    @property
    def activations(self) -> Counter[str]:
        """The number of times that each place took its rare path, without zeros."""
        taken = {name: point.activations for name, point in self._points.items()}
        return +Counter(taken)


class Coverage:
    """Counts of events that tests expect to happen sometimes."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    def sometimes(self, name: str, happened: bool = True) -> None:
        """Count a check of `name`, and whether the event happened."""
        self.asked[name] += 1
        if happened:
            self.seen[name] += 1

    def never(self) -> list[str]:
        """Return the events that were checked but never happened."""
        return sorted(name for name in self.asked if not self.seen[name])
