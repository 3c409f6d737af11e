"""Rates of counts that only grow, made of the looks at a page. Pure.

Invariant: a rate is that between two looks at least EVERY_S and at most GAP_S apart; a count that
has become smaller began anew, and has no rate until the next look.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

EVERY_S: Final = 2.0
GAP_S: Final = 60.0

Counts = Mapping[Hashable, int]


@dataclass(slots=True)
class _Seen:
    at_s: float
    counts: Counts
    rates: dict[Hashable, float] = field(default_factory=dict)


class Rates:
    """The rates of what one console shows, by names of apps or pipelines that it was started
    with."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def of(self, name: str, now_s: float, counts: Counts) -> Mapping[Hashable, float]:
        """Return how much each count grows a second. What is seen for the first time has none."""
        before = self._seen.get(name)
        if before is None or now_s - before.at_s > GAP_S:
            self._seen[name] = _Seen(now_s, dict(counts))
            return {}
        seconds = now_s - before.at_s
        if seconds < EVERY_S:
            return before.rates
        rates = {
            each: (count - before.counts[each]) / seconds
            for each, count in counts.items()
            if count >= before.counts.get(each, count + 1)
        }
        self._seen[name] = _Seen(now_s, dict(counts), rates)
        return rates
