"""Two Connect workers under faults: no row is lost, and where that is promised, none comes twice.

`MOLDAU_SEEDS` says how many worlds there are; `python -m tests.connect.simulation FROM TO` runs
others, and shows what happened in a bad one.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import pytest

from moldau.connect.storage import stores
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.report import SimulationFailed
from moldau.runtime.simulated.self_check import repeat_elsewhere
from tests.connect.simulation.scenario import Run, run_workers
from tests.memory import give_back

PARTS: Final = 4
LOST: Final = 8
"""A worker learns late that it lost a task, and sets the task of the new owner to UNASSIGNED."""
SEEDS: Final = int(os.environ.get("MOLDAU_SEEDS", "20"))


class Refused(Run):
    """The internal topics refuse several writes at each step, and nothing else happens."""

    safety_s = 5.0
    faults = ("nothing",)

    def __init__(self, world: Simulation) -> None:
        super().__init__(world)
        steps = ("config", "config written", "offset", "offset written", "status", "status written")
        self.refusals = dict.fromkeys(steps, 2)


class Unreachable(Run):
    """Workers are cut off and stopped for a while, and nothing else happens."""

    faults = ("isolate", "pause")


def test_a_refused_write_of_an_internal_topic_is_made_up_for() -> None:
    happened: Counter[str] = Counter()
    run_workers(1, happened, Refused)
    assert {"refused at config", "refused at status", "refused at status written"} <= set(happened)


def test_a_status_that_a_lost_worker_replaced_is_written_again() -> None:
    run_workers(LOST, kind=Unreachable)


@pytest.mark.deep
def test_a_seed_replays_exactly_in_another_process() -> None:
    found = {seed: run_workers(seed) for seed in (1, 2)}
    repeat_elsewhere(f"{run_workers.__module__}:{run_workers.__name__}", found)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_rows_are_neither_lost_nor_doubled(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        run_workers(seed)
        give_back()


@pytest.mark.deep
def test_a_replaced_status_that_stays_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "is_taken_back", lambda mine, known: False)
    with pytest.raises(SimulationFailed):
        run_workers(LOST, kind=Unreachable)
