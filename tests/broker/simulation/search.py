"""Runs seeds of the whole broker, in several processes, and tells what broke.

`python -m tests.broker.simulation --seeds 2000` for a search, `--seed 17` to see one again,
`--mutants` for how many seeds it takes to find each planted bug.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from moldau.runtime.simulated.report import SimulationFailed
from tests.broker.simulation.mutants import MUTANTS, Mutant
from tests.broker.simulation.scenario import run_broker

BLOCK: Final = 20
REPORT_CHARACTERS: Final = 6000
TWICE_EVERY: Final = 50


@dataclass(slots=True)
class Found:
    """What some seeds brought."""

    seeds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        self.seeds += other.seeds
        self.counts += other.counts
        self.failures.update(other.failures)


def run_block(seeds: Iterable[int]) -> Found:
    """One after the other; a share of them twice, to see that the seed says it all."""
    found = Found()
    for seed in seeds:
        found.seeds += 1
        try:
            outcome = run_broker(seed)
            found.counts += outcome.counts
            if seed % TWICE_EVERY == 0 and run_broker(seed).fingerprint != outcome.fingerprint:
                found.failures[seed] = f"seed {seed}: a second run was another one"
        except SimulationFailed as failure:
            found.failures[seed] = f"{failure}"[:REPORT_CHARACTERS]
        gc.collect()  # a world is a cycle with disks in it
    return found


def search(seeds: range, processes: int) -> Iterator[Found]:
    """Blocks of seeds as they are done."""
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(run_block, blocks)


def seeds_until_found(mutant: Mutant, seeds: range) -> tuple[int, str] | None:
    """How many seeds it took, and the promise that was seen broken."""
    for count, seed in enumerate(seeds, 1):
        try:
            with mutant():
                run_broker(seed)
        except SimulationFailed as failure:
            cause = failure.__cause__
            return count, f"{type(cause).__name__}: {cause}"
        finally:
            gc.collect()
    return None


def report(seeds: range, processes: int, tell: Callable[[str], object]) -> bool:
    """Search, and say how it goes; whether every promise was kept."""
    began = time.monotonic()
    whole = Found()
    for found in search(seeds, processes):
        whole.add(found)
        for text in found.failures.values():
            tell(text)
        rate = whole.seeds / (time.monotonic() - began)
        broken = f", broken: {[*whole.failures]}" if whole.failures else ""
        tell(f"{whole.seeds} of {len(seeds)} seeds, {rate:.1f} a second{broken}")
    tell("\n".join(f"{count:>9}  {name}" for name, count in sorted(whole.counts.items())))
    tell(f"{len(whole.failures)} of {whole.seeds} seeds broke a promise: {[*whole.failures]}")
    return not whole.failures


def report_mutants(tell: Callable[[str], object]) -> bool:
    """A line for each; whether all were found."""
    are_all_found = True
    for mutant, seeds in MUTANTS.items():
        found = seeds_until_found(mutant, seeds)
        are_all_found = are_all_found and found is not None
        told = "NOT FOUND" if found is None else f"{found[0]:>3} seeds  {found[1][:120]}"
        tell(f"{mutant.__name__:34} {told}")
    return are_all_found


def report_one(seed: int, tell: Callable[[str], object]) -> bool:
    """One seed, with all that a failure says of it; whether every promise was kept."""
    try:
        outcome = run_broker(seed)
    except SimulationFailed as failure:
        tell(f"{failure}")
        return False
    tell("\n".join(f"{count:>9}  {name}" for name, count in sorted(outcome.counts.items())))
    tell(f"seed {seed} kept every promise: {outcome.fingerprint.digest}")
    return True
