"""What repeats in one process only is found in another."""

from __future__ import annotations

import pytest

from moldau.runtime.simulated import Fingerprint, NotRepeatable, Simulation, run_seeds
from moldau.runtime.simulated.self_check import repeat_elsewhere
from tests.runtime.simulated.cluster import play


def quick(seed: int) -> Fingerprint:
    return play(seed, seconds=2)


def goes_through_a_set_of_strings(seed: int) -> Fingerprint:
    with Simulation(seed) as world:
        for name in {f"name-{number}" for number in range(50)}:
            world.note("world", name)
        return world.fingerprint


def fails(seed: int) -> Fingerprint:
    raise LookupError("a bug")


def test_a_good_scenario_repeats_in_another_process() -> None:
    repeat_elsewhere(f"{__name__}:quick", run_seeds(quick, range(3)), hash_seed=7)


def test_the_order_of_a_set_of_strings_is_found_out() -> None:
    here = run_seeds(goes_through_a_set_of_strings, [3], twice_every=1)

    def repeat() -> None:
        for hash_seed in (1, 2):  # one of them is not the seed of this process
            repeat_elsewhere(f"{__name__}:goes_through_a_set_of_strings", here, hash_seed=hash_seed)

    with pytest.raises(NotRepeatable, match="seed 3 gave"):
        repeat()


def test_a_scenario_that_fails_elsewhere_says_why() -> None:
    with pytest.raises(RuntimeError, match="LookupError: a bug"):
        repeat_elsewhere(f"{__name__}:fails", {1: Fingerprint("", 0, 0, ())})
