"""The replicated log under faults: many seeds keep all promises, and every planted bug is found.

`MOLDAU_SEEDS=10000` runs that many seeds in place of the 200 of each test run (half of them are
deep). A failure names its seed: `run_log(seed)` brings it back. Put it into bad_seeds.txt when it
is understood.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from examples.replicated_log.server import Server
from moldau.errors import BadData
from moldau.runtime.simulated.report import SimulationFailed
from moldau.runtime.simulated.self_check import run_seeds
from moldau.runtime.simulated.trace import Fingerprint
from tests import suites
from tests.simulation.mutants import SEEDS_TO_KILL
from tests.simulation.scenario import FOR_GOOD, KINDS, run_log

SEEDS = int(os.environ.get("MOLDAU_SEEDS", "200"))
BLOCKS = 8
TWICE_EVERY = 20

BAD_SEEDS = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "bad_seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]

happened: Counter[str] = Counter()


def scenario(seed: int) -> Fingerprint:
    outcome = run_log(seed)
    happened.update(outcome.faults)
    happened.update(cuts=outcome.cuts, acknowledged=outcome.acknowledged, refused=outcome.refused)
    happened["second epochs"] += outcome.epochs > 1
    return outcome.fingerprint


@pytest.mark.parametrize("seed", BAD_SEEDS)
def test_what_once_was_wrong_stays_right(seed: int) -> None:
    scenario(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", suites.seeds(range(BLOCKS), quick=1))
def test_all_promises_are_kept(block: int) -> None:
    run_seeds(scenario, range(block, SEEDS, BLOCKS), twice_every=TWICE_EVERY)


def test_the_runs_go_where_it_hurts() -> None:
    happened.clear()
    for seed in range(1000, 1060):
        scenario(seed)
    wanted = {*KINDS, *FOR_GOOD, "cuts", "acknowledged", "second epochs", "refused"}
    wanted |= {"early-alarm", "sync-waits"}
    disk_faults = ("write_error", "sync_error", "no_space", "slow_sync", "bit_rot")
    wanted |= {f"felt {fault}" for fault in disk_faults}
    assert not {name for name in wanted if not happened[name]}


@pytest.mark.parametrize("mutant", SEEDS_TO_KILL, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found(mutant: type[Server]) -> None:
    for seed in range(SEEDS_TO_KILL[mutant]):
        try:
            run_log(seed, mutant)
        except SimulationFailed as failure:
            assert isinstance(failure.__cause__, AssertionError | BadData)  # noqa: PT017
            return
    pytest.fail(f"{SEEDS_TO_KILL[mutant]} seeds did not find it")


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_says_it_all_in_every_process(hash_seed: str) -> None:
    program = (
        "from tests.simulation.scenario import run_log;"
        " print([run_log(seed).fingerprint.digest for seed in (3, 4)])"
    )
    output = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output.strip() == str([run_log(seed).fingerprint.digest for seed in (3, 4)])


def test_seeds_differ() -> None:
    assert run_log(3).fingerprint != run_log(4).fingerprint
