"""Three members of which one writes, under faults: nothing answered is lost, no number comes twice.

`MOLDAU_SEEDS` says how many worlds there are.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import pytest

from moldau.runtime.simulated.report import SimulationFailed
from moldau.runtime.simulated.self_check import repeat_elsewhere
from tests.folds.simulation.mutants import MUTANTS
from tests.folds.simulation.scenario import STEPS, Run, run_members
from tests.memory import give_back

SEEDS: Final = int(os.environ.get("MOLDAU_SEEDS", "15"))
QUICK: Final = 3


def test_what_is_answered_is_kept_and_known() -> None:
    for seed in range(QUICK):
        run_members(seed)


@pytest.mark.deep
def test_what_is_answered_is_kept_and_known_in_more_worlds() -> None:
    happened: Counter[str] = Counter()
    for seed in range(QUICK, SEEDS):
        run_members(seed, happened)
        give_back()
    wanted = {f"{what} at {step}" for what in ("kill", "refuse", "cancel") for step in STEPS}
    assert SEEDS < 15 or wanted <= happened.keys()


@pytest.mark.deep
def test_a_seed_replays_exactly_in_another_process() -> None:
    found = {seed: run_members(seed) for seed in (1, 2)}
    repeat_elsewhere(f"{run_members.__module__}:{run_members.__name__}", found)


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "seed"), MUTANTS.items())
def test_a_planted_fault_is_found(kind: type[Run], seed: int) -> None:
    with pytest.raises(SimulationFailed):
        run_members(seed, kind=kind)
