"""Storms over programs with the client of the house: nothing is lost, torn or copied twice.

`python -m tests.broker.cluster.transactional --clients --seeds 2000` searches further; `--seed N`
brings one back.
"""

from __future__ import annotations

import os

import pytest

from tests import suites
from tests.broker.cluster.transactional.client_mutants import CLIENT_MUTANTS
from tests.broker.cluster.transactional.client_storm import run_client_storm
from tests.broker.simulation.search import Mutant, hunt_down
from tests.memory import give_back

pytestmark = pytest.mark.usefixtures("no_world_is_left")

SEEDS = (2, 3, 11, 12, 14)
LOST_ID = 20
"""A producer went on for ever with an id that its coordinator had forgotten. It takes a while."""
DONE_SINCE = 131
"""A commit was made again after its time-out, and had been done meanwhile: it was refused."""
MORE = int(os.environ.get("MOLDAU_STORM_CYCLES", "20"))
BLOCK = 10


@pytest.mark.parametrize(
    "seed",
    [
        *suites.seeds(SEEDS, quick=2, turns=3),
        *(pytest.param(each, marks=pytest.mark.deep) for each in (LOST_ID, DONE_SINCE)),
    ],
)
def test_programs_survive_a_storm(seed: int) -> None:
    counts = run_client_storm(seed).counts
    assert counts["committed"] >= 3
    assert counts["copied in a transaction"] >= 3


@pytest.mark.deep
@pytest.mark.parametrize("block", range(0, MORE, BLOCK))
def test_programs_survive_more_storms(block: int) -> None:
    for seed in range(100 + block, 100 + block + min(BLOCK, MORE - block)):
        print(f"seed {seed}")
        try:
            run_client_storm(seed)
        except BaseException as error:
            error.add_note(f"python -m tests.broker.cluster.transactional --clients --seed {seed}")
            raise
        give_back()


@pytest.mark.parametrize("mutant", CLIENT_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_of_the_client_breaks_a_promise(mutant: Mutant) -> None:
    hunted = hunt_down(run_client_storm, mutant, CLIENT_MUTANTS[mutant])
    assert hunted.is_found, hunted
