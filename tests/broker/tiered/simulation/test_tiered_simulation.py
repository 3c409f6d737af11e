"""The remote tier of a partition under faults: all promises are kept, and planted bugs are found.

`python -m tests.broker.tiered.simulation --seeds 2000` searches further. A failure names its seed
and the moves that led to it; `--seed N` brings it back.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from moldau.runtime.simulated.self_check import repeat_elsewhere, run_seeds
from moldau.runtime.simulated.trace import Fingerprint
from tests.broker.simulation.search import Mutant, hunt_down
from tests.broker.tiered.simulation.mutants import MUTANTS
from tests.broker.tiered.simulation.world import run_deaf, run_tiered, run_unclean

SEEDS: Final = range(200)
TWICE_EVERY: Final = 50
HAPPENS: Final = (
    *("kill", "boot", "election", "unclean election", "lost uncleanly", "start", "cut", "landed"),
    *(f"write {answer}" for answer in ("done", "failed", "torn", "answer lost", "late")),
    *(f"put {answer}" for answer in ("done", "failed", "torn", "answer lost", "late")),
    *(f"delete {answer}" for answer in ("done", "failed", "torn", "answer lost", "late")),
    *("swept", "segments in the end", "records below the local log"),
)

happened: Counter[str] = Counter()


def scenario(seed: int) -> Fingerprint:
    outcome = run_tiered(seed)
    happened.update(outcome.counts)
    return outcome.fingerprint


def test_all_promises_are_kept_and_the_runs_go_where_it_hurts() -> None:
    happened.clear()
    run_seeds(scenario, SEEDS, twice_every=TWICE_EVERY)
    assert not [name for name in HAPPENS if not happened[name]]


def test_deposed_leaders_that_go_on_break_nothing() -> None:
    for seed in range(40):
        run_deaf(seed)


def test_elections_that_lose_records_break_nothing_else() -> None:
    lost: Counter[str] = Counter()
    for seed in range(40):
        lost.update(run_unclean(seed).counts)
    assert lost["lost uncleanly"] > 100


def test_a_seed_says_it_all_in_every_process() -> None:
    repeat_elsewhere(f"{__name__}:scenario", {7: scenario(7)})


@pytest.mark.deep
@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_breaks_a_promise_that_it_names(mutant: Mutant) -> None:
    hunted = hunt_down(run_tiered, mutant, MUTANTS[mutant])
    assert hunted.is_found, str(hunted)
