"""Storms over a cluster: no seed breaks an invariant, and every client gets going again.

`python -m tests.broker.cluster --seeds 5000` searches further. A failure names its seed; `--seed N`
brings it back. Put it into bad_seeds.txt when it is understood.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from moldau.runtime.simulated.self_check import repeat_elsewhere
from moldau.runtime.simulated.trace import Fingerprint
from tests.broker.cluster.storm import run_cluster

pytestmark = pytest.mark.usefixtures("no_world_is_left")

BAD_SEEDS = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "bad_seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
SEEDS = range(1, 3)
FIRST = 100
CYCLES = int(os.environ.get("MOLDAU_STORM_CYCLES", "40"))
BLOCK = 10


def scenario(seed: int) -> Fingerprint:
    return run_cluster(seed).fingerprint


@pytest.mark.parametrize("seed", [*SEEDS, *BAD_SEEDS])
def test_a_cluster_survives_a_storm(seed: int) -> None:
    assert run_cluster(seed).counts["acknowledged"] > 10


def test_a_seed_says_it_all_in_every_process() -> None:
    repeat_elsewhere(f"{__name__}:scenario", {7: scenario(7)})


@pytest.mark.deep
@pytest.mark.parametrize("first", range(FIRST, FIRST + CYCLES, BLOCK))
def test_a_cluster_survives_more_storms(first: int) -> None:
    for seed in range(first, first + BLOCK):
        print(f"seed {seed}")
        run_cluster(seed)
        gc.collect()
