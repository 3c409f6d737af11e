"""Storms over share groups: no seed breaks a promise, and every queue is empty at the end.

`python -m tests.broker.cluster.queues --seeds 1000` searches further. A failure names its seed;
`--seed N` brings it back. Put it into bad_seeds.txt when it is understood.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import suites
from tests.broker.cluster.queues.mutants import MUTANTS
from tests.broker.cluster.queues.storm import run_queues
from tests.broker.simulation.search import Mutant, hunt_down
from tests.memory import give_back

pytestmark = pytest.mark.usefixtures("no_world_is_left")

BAD_SEEDS = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "bad_seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
SEEDS = (5, *reversed(BAD_SEEDS), 4)
MORE = int(os.environ.get("MOLDAU_STORM_CYCLES", "30"))
BLOCK = 10


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=2, turns=len(BAD_SEEDS) - 1))
def test_a_queue_survives_a_storm(seed: int) -> None:
    assert run_queues(seed).counts["deliveries"] >= 3


@pytest.mark.deep
@pytest.mark.parametrize("block", range(0, MORE, BLOCK))
def test_queues_survive_more_storms(block: int) -> None:
    for seed in range(block + 1, block + 1 + min(BLOCK, MORE - block)):
        print(f"seed {seed}")
        try:
            run_queues(seed)
        except BaseException as error:
            error.add_note(f"python -m tests.broker.cluster.queues --seed {seed}")
            raise
        give_back()


@pytest.mark.deep
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_breaks_a_promise_that_it_names(mutant: Mutant) -> None:
    hunted = hunt_down(run_queues, mutant, MUTANTS[mutant])
    assert hunted.is_found, hunted
