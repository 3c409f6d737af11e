"""Runs many seeds, and some of them twice, to prove that a seed determines its run.

A run that does not repeat is worth nothing: its failures cannot be examined. So a share of all
seeds is run a second time, and a difference is a failure of its own, whatever the run tested.

In the same process a second run has the same hashes of strings, so a scenario that iterates over a
set of them repeats here but nowhere else. `repeat_elsewhere` runs it in another process, with
another hash seed; it must find the scenario there, so it is named as `module:function`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from moldau.runtime.simulated.trace import Fingerprint

TWICE_EVERY = 100

Scenario = Callable[[int], Fingerprint]


class NotRepeatable(AssertionError):
    """Two runs of one seed differ: something outside the seed had an influence."""

    def __init__(self, seed: int, first: Fingerprint, second: Fingerprint) -> None:
        super().__init__(
            f"seed {seed} gave {first.digest} after {first.events} events"
            f" and {second.digest} after {second.events}; {first.first_difference(second)}"
        )
        self.seed = seed


def run_seeds(
    scenario: Scenario, seeds: Iterable[int], *, twice_every: int = TWICE_EVERY
) -> dict[int, Fingerprint]:
    """Run each seed, and the first of every `twice_every` twice. Raise NotRepeatable."""
    fingerprints = {}
    for position, seed in enumerate(seeds):
        fingerprints[seed] = scenario(seed)
        if position % twice_every == 0:
            again = scenario(seed)
            if again != fingerprints[seed]:
                raise NotRepeatable(seed, fingerprints[seed], again)
    return fingerprints


def repeat_elsewhere(
    scenario: str, fingerprints: Mapping[int, Fingerprint], *, hash_seed: int = 1
) -> None:
    """Run those seeds in another process. Raise NotRepeatable if one differs.

    `scenario` is `module:function`; the hash seed should not be the one of this process.
    """
    answer = subprocess.run(  # noqa: S603 (this very module)
        [sys.executable, "-m", __name__, scenario, *map(str, fingerprints)],
        env={
            **os.environ,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise RuntimeError(f"{scenario} failed in another process:\n{answer.stderr}")
    for (seed, first), line in zip(
        fingerprints.items(), answer.stdout.splitlines()[-len(fingerprints) :], strict=True
    ):
        digest, events, now_ns, milestones = json.loads(line)
        again = Fingerprint(digest, events, now_ns, tuple(map(tuple, milestones)))
        if again != first:
            raise NotRepeatable(seed, first, again)


def _answer(scenario: str, seeds: Iterable[str]) -> None:
    module, _, name = scenario.partition(":")
    run: Scenario = getattr(import_module(module), name)
    for seed in seeds:
        found = run(int(seed))
        facts = (found.digest, found.events, found.now_ns, found.milestones)
        sys.stdout.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    _answer(sys.argv[1], sys.argv[2:])
