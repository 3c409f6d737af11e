"""Games of whole consumers: many seeds keep all promises, and every planted bug is found.

A failure names its seed and tells the moves in order; `python -m tests.client.group.consumer_games
--seed N` brings it back.
"""

from __future__ import annotations

import gc
from collections import Counter
from typing import Final

import pytest

from moldau.runtime.simulated.self_check import run_seeds
from moldau.runtime.simulated.trace import Fingerprint
from tests.broker.simulation.search import Mutant, hunt_down
from tests.client.group.consumer_games import play
from tests.client.group.consumer_mutants import MUTANTS

SEEDS: Final = range(1000, 1055)
TWICE_EVERY: Final = 33
HAPPENS: Final = (
    "assigned",
    "revoked",
    "lost",
    "committed at the end",
    "gone: closed",
    "gone: just closed",
    "gone: just unsubscribed",
    "gone: silent",
    "gone: unsubscribed",
    "heard RuntimeError",
    "heard Refused",
    "committed meanwhile",
    "took a record",
    "took a part",
    "took up again",
    "cancelled a reader",
)


@pytest.mark.parametrize("seed", range(900, 908))
def test_a_few_games_keep_all_promises(seed: int) -> None:
    assert play(seed).counts
    gc.collect()


@pytest.mark.deep
def test_all_promises_are_kept_and_the_games_go_where_it_hurts() -> None:
    happened: Counter[str] = Counter()

    def scenario(seed: int) -> Fingerprint:
        outcome = play(seed)
        happened.update(outcome.counts)
        gc.collect()
        return outcome.fingerprint

    run_seeds(scenario, SEEDS, twice_every=TWICE_EVERY)
    assert not [name for name in HAPPENS if not happened[name]]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found_by_what_it_breaks(mutant: Mutant) -> None:
    hunted = hunt_down(play, mutant, MUTANTS[mutant])
    assert hunted.is_found, str(hunted)
