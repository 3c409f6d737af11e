"""Storms over a cluster: no seed breaks an invariant, and every client gets going again.

`python -m tests.broker.cluster --seeds 5000` searches further. A failure names its seed; `--seed N`
brings it back. Put it into bad_seeds.txt when it is understood. The fresh seeds are those of the
day, so they are others tomorrow.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moldau.runtime.simulated.self_check import repeat_elsewhere
from moldau.runtime.simulated.trace import Fingerprint
from tests import suites
from tests.broker.cluster.storm import run_cluster
from tests.memory import give_back

pytestmark = pytest.mark.usefixtures("no_world_is_left")

BAD_SEEDS = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "bad_seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
SEEDS = (1, *reversed(BAD_SEEDS), 2)
FRESH = int(os.environ.get("MOLDAU_STORM_CYCLES", "100"))
BLOCK = 10


def scenario(seed: int) -> Fingerprint:
    return run_cluster(seed).fingerprint


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=2, turns=len(SEEDS) - 2))
def test_a_cluster_survives_a_storm(seed: int) -> None:
    assert run_cluster(seed).counts["acknowledged"] > 10


def test_a_seed_says_it_all_in_every_process() -> None:
    repeat_elsewhere(f"{__name__}:scenario", {7: scenario(7)})


@pytest.mark.deep
@pytest.mark.parametrize("block", range(0, FRESH, BLOCK))
def test_a_cluster_survives_the_storms_of_the_day(block: int) -> None:
    first = int(f"{datetime.now(UTC):%Y%m%d}") * 1000 + block
    for seed in range(first, first + min(BLOCK, FRESH - block)):
        print(f"seed {seed}")
        try:
            run_cluster(seed)
        except BaseException as error:
            error.add_note(f"python -m tests.broker.cluster --seed {seed}")
            raise
        give_back()
