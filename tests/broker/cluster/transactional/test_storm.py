"""Storms over transactions: no seed breaks a promise, and every writer gets going again.

`python -m tests.broker.cluster.transactional --seeds 2000` searches further. A failure
names its seed; `--seed N` brings it back. Put it into bad_seeds.txt when it is understood.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import suites
from tests.broker.cluster.transactional.mutants import MUTANTS
from tests.broker.cluster.transactional.storm import run_transactions
from tests.broker.simulation.search import Mutant, hunt_down
from tests.memory import give_back

pytestmark = pytest.mark.usefixtures("no_world_is_left")

BAD_SEEDS = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "bad_seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
LONG = 3104
"""Its writers do a hundred times as much as others while all heals: fifty seconds of CPU."""
SEEDS = (5, *(each for each in reversed(BAD_SEEDS) if each != LONG), 6)
MORE = int(os.environ.get("MOLDAU_STORM_CYCLES", "50"))
BLOCK = 10


@pytest.mark.parametrize(
    "seed",
    [
        *suites.seeds(SEEDS, quick=1, turns=len(SEEDS) - 1),
        pytest.param(LONG, marks=pytest.mark.deep),
    ],
)
def test_transactions_survive_a_storm(seed: int) -> None:
    assert run_transactions(seed).counts["committed"] >= 3


@pytest.mark.deep
@pytest.mark.parametrize("block", range(0, MORE, BLOCK))
def test_transactions_survive_more_storms(block: int) -> None:
    for seed in range(block + 1, block + 1 + min(BLOCK, MORE - block)):
        print(f"seed {seed}")
        try:
            run_transactions(seed)
        except BaseException as error:
            error.add_note(f"python -m tests.broker.cluster.transactional --seed {seed}")
            raise
        give_back()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_breaks_a_promise_that_it_names(mutant: Mutant) -> None:
    hunt = MUTANTS[mutant]
    hunted = hunt_down(run_transactions, mutant, hunt)
    assert hunted.is_found, hunted
