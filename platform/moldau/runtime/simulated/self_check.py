"""Runs many seeds, and some of them twice, to prove that a seed says it all.

A run that does not repeat is worth nothing: its failures cannot be looked at. So a share of all
seeds is run a second time, and a difference is a failure of its own, whatever the run was about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moldau.runtime.simulated.trace import Fingerprint

TWICE_EVERY = 100

Scenario = Callable[[int], Fingerprint]


class NotRepeatable(AssertionError):
    """Two runs of one seed differ: something outside the seed was let in."""

    def __init__(self, seed: int, first: Fingerprint, second: Fingerprint) -> None:
        super().__init__(
            f"seed {seed} gave {first.digest} after {first.events} events"
            f" and {second.digest} after {second.events}; {first.first_difference(second)}"
        )
        self.seed = seed


def run_seeds(
    scenario: Scenario, seeds: Iterable[int], *, twice_every: int = TWICE_EVERY
) -> dict[int, Fingerprint]:
    """Runs each seed; the first of every `twice_every` runs twice. Raises NotRepeatable."""
    fingerprints = {}
    for position, seed in enumerate(seeds):
        fingerprints[seed] = scenario(seed)
        if position % twice_every == 0:
            again = scenario(seed)
            if again != fingerprints[seed]:
                raise NotRepeatable(seed, fingerprints[seed], again)
    return fingerprints
