"""Runs seeds of a scenario, in several processes, and tells what broke.

`--seeds 2000` or `--seeds 100-200` for a search, `--seed 17` to see one again, `--mutants` for how
many seeds it takes to find each planted bug. A planted bug is found when it breaks a promise that
it names. Another promise that breaks on the way is told, and the search goes on; a run that ends by
anything else ends the search too, because a crash of the world would hide what the bug is about.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from moldau.runtime.simulated.report import SimulationFailed
from tests.broker.simulation.promises import BrokenPromise
from tests.broker.simulation.scenario import Outcome

BLOCK: Final = 20
REPORT_CHARACTERS: Final = 6000
TWICE_EVERY: Final = 50


Mutant = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Hunt:
    """How a planted bug is to be found."""

    seeds: range
    """Enough of them; several times what it took."""
    promises: Collection[str]
    """One of these must break."""
    run: Callable[[int], object] | None = None
    """Where the bug is too rare: the scenario with more of what it takes."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is searched: a scenario by its seed, and bugs to plant. Functions of modules, for other
    processes."""

    run: Callable[[int], Outcome]
    mutants: Mapping[Mutant, Hunt]


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


def run_block(run: Callable[[int], Outcome], seeds: Iterable[int]) -> Found:
    """One after the other; a share of them twice, to see that the seed says it all."""
    found = Found()
    for seed in seeds:
        found.seeds += 1
        try:
            outcome = run(seed)
            found.counts += outcome.counts
            if seed % TWICE_EVERY == 0 and run(seed).fingerprint != outcome.fingerprint:
                found.failures[seed] = f"seed {seed}: a second run was another one"
        except SimulationFailed as failure:
            found.failures[seed] = f"{failure}"[:REPORT_CHARACTERS]
        except AssertionError as failure:  # of what is judged when the run is over
            found.failures[seed] = f"seed {seed}: {failure}"[:REPORT_CHARACTERS]
        gc.collect()  # a world is a cycle with disks in it
    return found


def search(subject: Subject, seeds: range, processes: int) -> Iterator[Found]:
    """Blocks of seeds as they are done."""
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(partial(run_block, subject.run), blocks)


@dataclass(slots=True)
class Hunted:
    """What came of a hunt."""

    seeds: int = 0
    is_found: bool = False
    broken: str = ""
    """The promise that was named, with its facts; or what ended the hunt."""
    others: Counter[str] = field(default_factory=Counter)
    """Promises that broke on the way and were not named."""

    def __str__(self) -> str:
        how = "" if self.is_found else "NOT FOUND  "
        others = f"  (on the way: {', '.join(self.others)})" if self.others else ""
        return f"{self.seeds:>3} seeds  {how}{self.broken}{others}"


def hunt_down(run: Callable[[int], object], mutant: Mutant, hunt: Hunt) -> Hunted:
    """Plant the bug, and run seeds until it is found or a run crashes."""
    run = hunt.run or run
    hunted = Hunted()
    for seed in hunt.seeds:
        hunted.seeds += 1
        try:
            with mutant():
                run(seed)
        except SimulationFailed as failure:
            cause = failure.__cause__
            promise = cause.promise if isinstance(cause, BrokenPromise) else None
            hunted.is_found = promise in hunt.promises
            if hunted.is_found or promise is None:
                what = failure.reason if cause is None else f"{type(cause).__name__}: {cause}"
                hunted.broken = f"seed {seed}: {what}"
                return hunted
            hunted.others[promise] += 1
        finally:
            gc.collect()
    return hunted


def report(subject: Subject, seeds: range, processes: int) -> bool:
    """Search, and say how it goes; whether every promise was kept."""
    began = time.monotonic()
    whole = Found()
    for found in search(subject, seeds, processes):
        whole.add(found)
        for text in found.failures.values():
            tell(text)
        rate = whole.seeds / (time.monotonic() - began)
        broken = f", broken: {[*whole.failures]}" if whole.failures else ""
        tell(f"{whole.seeds} of {len(seeds)} seeds, {rate:.1f} a second{broken}")
    tell("\n".join(f"{count:>9}  {name}" for name, count in sorted(whole.counts.items())))
    tell(f"{len(whole.failures)} of {whole.seeds} seeds broke a promise: {[*whole.failures]}")
    return not whole.failures


def report_mutants(subject: Subject) -> bool:
    """A line for each; whether all were found."""
    are_all_found = True
    for mutant, hunt in subject.mutants.items():
        hunted = hunt_down(subject.run, mutant, hunt)
        are_all_found = are_all_found and hunted.is_found
        tell(f"{mutant.__name__:34} {hunted}")
    return are_all_found


def report_one(subject: Subject, seed: int) -> bool:
    """One seed, with all that a failure says of it; whether every promise was kept."""
    try:
        outcome = subject.run(seed)
    except SimulationFailed as failure:
        tell(f"{failure}")
        return False
    tell("\n".join(f"{count:>9}  {name}" for name, count in sorted(outcome.counts.items())))
    tell(f"seed {seed} kept every promise: {outcome.fingerprint.digest}")
    return True


def command(subject: Subject, prog: str, doc: str | None) -> int:
    """As a command: its exit code."""
    parser = argparse.ArgumentParser(prog=prog, description=doc)
    parser.add_argument(
        "--seeds", type=_seeds, default=range(200), help="how many, or from-to (default: 200)"
    )
    parser.add_argument("--seed", type=int, help="this one only, with all that it says")
    parser.add_argument("--mutants", action="store_true", help="how soon planted bugs are found")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.mutants:
        is_good = report_mutants(subject)
    elif given.seed is not None:
        is_good = report_one(subject, given.seed)
    else:
        is_good = report(subject, given.seeds, given.processes)
    return 0 if is_good else 1


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    return range(int(first), int(last)) if dash else range(int(first))


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
