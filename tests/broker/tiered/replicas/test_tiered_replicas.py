"""Whole replicas of a tiered partition, with logs on disks and the fetchers of a broker, begin
behind remote records under kills and elections: all promises are kept, and planted bugs are found.

`python -m tests.broker.tiered.replicas --seeds 500` searches further. A failure names its seed and
the moves that led to it; `--seed N` brings it back.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from moldau.runtime.simulated.self_check import repeat_elsewhere
from moldau.runtime.simulated.trace import Fingerprint
from tests.broker.simulation.search import Mutant, hunt_down
from tests.broker.tiered.replicas.cluster import run_replicas, run_unclean_replicas
from tests.broker.tiered.replicas.mutants import MUTANTS

pytestmark = pytest.mark.usefixtures("no_world_is_left")

HAPPENS: Final = (
    *("kill", "lose power", "lose disk", "start", "elected", "in sync", "falls behind"),
    *("copied", "cut", "deleted", "moved", "delete records", "acknowledged"),
    *("repeated", "repeated and remote"),
)


def scenario(seed: int) -> Fingerprint:
    return run_replicas(seed).fingerprint


def test_all_promises_are_kept_and_the_runs_go_where_it_hurts() -> None:
    happened: Counter[str] = Counter()
    for seed in range(4):
        happened.update(run_replicas(seed).counts)
    assert not [name for name in HAPPENS if not happened[name]]


def test_elections_that_lose_records_break_nothing_else() -> None:
    happened: Counter[str] = Counter()
    for seed in range(4):
        happened.update(run_unclean_replicas(seed).counts)
    assert happened["elected uncleanly"]


def test_a_seed_says_it_all_in_every_process() -> None:
    repeat_elsewhere(f"{__name__}:scenario", {5: scenario(5)})


@pytest.mark.deep
@pytest.mark.slow
def test_many_seeds_keep_all_promises() -> None:
    for seed in range(100, 140):
        run_replicas(seed)
        run_unclean_replicas(seed)


@pytest.mark.deep
@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_breaks_a_promise_that_it_names(mutant: Mutant) -> None:
    hunted = hunt_down(run_replicas, mutant, MUTANTS[mutant])
    assert hunted.is_found, str(hunted)
